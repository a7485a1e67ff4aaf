"""The command `headrace`: the list of commands, and the one border where errors become words.

Invariant: every way out of the program passes `Headrace.main`; an error's exit code is its own.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from headrace import __version__
from headrace.cli import (
    alerts,
    begin,
    control,
    demo,
    history,
    jars,
    kafka,
    lag,
    looking,
    quarantine,
    questions,
    service,
    token,
    warm,
)
from headrace.cli.errors import UNEXPECTED, interrupted, show_error, usage_error
from headrace.cli.options import Options, shared
from headrace.errors import ConfigError, Error


class Headrace(click.Group):
    """A group whose `main` never shows a traceback unasked."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(given, prog_name or "headrace", complete_var, False, **extra)
        except Exception as exc:  # the border: whatever it is, it ends as words and a code
            code = _ended_by(exc, given)
        except KeyboardInterrupt:
            code = interrupted()
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order one meets them, not by the alphabet

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            close = difflib.get_close_matches(name, self.commands, n=1)
            raise ConfigError(
                f'There is no command "{name}".',
                why=f'Did you mean "{close[0]}"?' if close else None,
                fix=f"headrace {close[0]} --help" if close else "headrace --help lists them all",
                slug="unknown-command",
            )
        return super().resolve_command(ctx, args)


def _ended_by(exc: Exception, args: list[str]) -> int:
    own = args[: args.index("--")] if "--" in args else args  # what follows is a script's
    json_ = "--json" in own
    if isinstance(exc, BrokenPipeError):
        # `headrace logs | head`: nobody reads any more. Python must not flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(exc, click.Abort):
        return interrupted()
    if isinstance(exc, click.ClickException):
        return usage_error(exc, json_)
    if isinstance(exc, Error):
        show_error(exc, json_)
        return exc.exit_code
    if "--debug" in own:
        import traceback

        traceback.print_exception(exc)
    else:
        show_error(Error(f"{type(exc).__name__}: {exc}", why=UNEXPECTED, slug="unexpected"), json_)
    return 1


@click.group(
    cls=Headrace,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="headrace", message="%(prog)s %(version)s")
@shared
@click.pass_context
def main(ctx: click.Context) -> None:
    """Keeps PySpark Structured Streaming running: runs, watches, restarts, explains.

    \b
    Begin:  headrace init hello && cd hello && headrace run hello
    """
    ctx.ensure_object(Options)
    if os.environ.get("NO_COLOR"):
        ctx.color = False


for _group in (
    demo.COMMANDS,
    begin.COMMANDS,
    service.COMMANDS,
    looking.COMMANDS,
    history.COMMANDS,
    alerts.COMMANDS,
    quarantine.COMMANDS,
    questions.COMMANDS,
    control.COMMANDS,
    jars.COMMANDS,
    kafka.COMMANDS,
    lag.COMMANDS,
    token.COMMANDS,
    warm.COMMANDS,
):
    for _command in _group:
        main.add_command(_command)
