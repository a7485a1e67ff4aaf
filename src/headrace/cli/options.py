"""Options that every command takes, before or after its name.

Invariant: imports nothing but click; `Options.open()` reads the settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from headrace.project.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Options:
    """Filled while click parses; read by commands."""

    project: str | None = None
    profile: str = field(default_factory=lambda: os.environ.get("HEADRACE_PROFILE") or "dev")
    debug: bool = False

    def open(self) -> Workspace:
        from headrace.project.workspace import open_workspace

        return open_workspace(Path(self.project) if self.project else None, self.profile)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    options = ctx.find_root().ensure_object(Options)
    if value:
        setattr(options, str(param.name), value)


def shared_options(command: F) -> F:
    """`--project`, `--profile`, `--debug`: on the group and on each command; both orders work."""
    option = partial(click.option, expose_value=False, callback=_remember)
    debug = option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
    profile = option(
        "--profile",
        metavar="NAME",
        help="Use this profile from headrace.toml. Default: HEADRACE_PROFILE if it is set, else "
        "dev.",
    )
    project = option(
        "--project",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="Project folder. Default: this folder or its nearest parent with a headrace.toml.",
    )
    return project(profile(debug(command)))


def as_json(command: F) -> F:
    """`--json`: the same data for programs. An error is then a JSON object on stdout, too."""
    return click.option("--json", "json_", is_flag=True, help="Print machine-readable JSON.")(
        command
    )


def pass_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options, and pass them as `Options`."""
    return shared_options(click.make_pass_decorator(Options, ensure=True)(command))


def pass_options_and_json(command: Callable[..., Any]) -> Callable[..., Any]:
    return as_json(pass_options(command))


class Seconds(click.ParamType[float]):
    """`60s`, `2 minutes`, `500ms`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        from headrace.durations import parse_duration

        return parse_duration(value)
