"""The declarations of a pipeline's file, recorded by its decorators.

`api` writes them while the file runs, and `graph` reads them. Each file that is loaded has its own
collector (a ContextVar), so one process can load several. Outside of `loader`, in a notebook or a
user's test, the process has one collector, where a new declaration replaces the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from headrace.errors import Error
from headrace.model.pipeline import Place


@dataclass(frozen=True)
class Declaration:
    """One definition. `kind` is source, table, view, udf or query."""

    name: str
    kind: str
    function: Callable[..., Any]
    place: Place
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Collector:
    """`root` is the folder of the running code (a deployed copy), `project` that of the user."""

    root: Path | None = None
    project: Path | None = None
    is_loading: bool = False  # collect mistakes instead of raising them at once
    declared: list[Declaration] = field(default_factory=list)
    problems: list[Error] = field(default_factory=list)
    modules: tuple[ModuleType, ...] = ()  # of the user; workers cannot import them by name

    def add(self, one: Declaration) -> None:
        if not self.is_loading:
            self.declared = [d for d in self.declared if (d.kind, d.name) != (one.kind, one.name)]
        self.declared.append(one)

    def refuse(self, problem: Error) -> None:
        if not self.is_loading:
            raise problem
        self.problems.append(problem)

    def place(self, file: str, line: int) -> Place:
        """Relative to the project, also for a deployed copy."""
        path = os.path.realpath(file)
        for folder in (self.root, self.project):
            if folder is not None and (inside := _relative(path, folder)):
                return Place(inside, line)
        return Place(file, line)

    def owns(self, file: str) -> bool:
        """Whether a file belongs to the user and not to a library."""
        path = os.path.realpath(file)
        folders = [f for f in (self.root, self.project) if f is not None]
        inside = [rel for f in folders if (rel := _relative(path, f))]
        return any("site-packages" not in rel and ".venv" not in rel for rel in inside)

    def innermost(self, traceback: TracebackType | None) -> Place | None:
        """The innermost line of the user in a traceback."""
        found: Place | None = None
        while traceback is not None:
            file = traceback.tb_frame.f_code.co_filename
            if self.owns(file):
                found = self.place(file, traceback.tb_lineno)
            traceback = traceback.tb_next
        return found


def _relative(path: str, folder: Path) -> str | None:
    above = os.path.realpath(folder) + os.sep
    return path[len(above) :] if path.startswith(above) else None


_process_wide = Collector()
_current: ContextVar[Collector | None] = ContextVar("headrace_collector", default=None)


def current() -> Collector:
    return _current.get() or _process_wide


def outside() -> Collector:
    """Declarations made without `loader`: in a notebook, or by a plain import."""
    return _process_wide


class collecting:  # noqa: N801 — used as `with collecting(collector):`
    def __init__(self, collector: Collector) -> None:
        self.collector = collector

    def __enter__(self) -> Collector:
        self._token = _current.set(self.collector)
        self.collector.is_loading = True
        return self.collector

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
