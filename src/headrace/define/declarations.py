"""The declarations of a pipeline's file, recorded by its decorators.

`api` writes them while the file runs, and `graph` reads them. Each file that is loaded has its own
collector (a ContextVar), so one process can load several. Outside of `loader`, in a notebook or a
user's test, the process has one collector, where a new declaration replaces the old one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from headrace.errors import Error
from headrace.model.pipeline import Place


@dataclass(frozen=True)
class Declaration:
    """One definition. `kind` is source, table, view, udf, query or listener (then `function` may
    be a class)."""

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
        return Place(next(iter(self._relative(file)), file), line)

    def owns(self, file: str) -> bool:
        """Whether a file belongs to the user and not to a library."""
        inside = self._relative(file)
        return any("site-packages" not in path and ".venv" not in path for path in inside)

    def innermost(self, traceback: TracebackType | None) -> Place | None:
        """The innermost line of the user in a traceback."""
        found: Place | None = None
        while traceback is not None:
            file = traceback.tb_frame.f_code.co_filename
            if self.owns(file):
                found = self.place(file, traceback.tb_lineno)
            traceback = traceback.tb_next
        return found

    def _relative(self, file: str) -> list[str]:
        """The path below `root` and below `project`, as far as it is there."""
        path = Path(os.path.realpath(file))
        folders = [Path(os.path.realpath(f)) for f in (self.root, self.project) if f is not None]
        return [str(path.relative_to(f)) for f in folders if path != f and path.is_relative_to(f)]


_process_wide = Collector()
_current: ContextVar[Collector | None] = ContextVar("headrace_collector", default=None)


def current() -> Collector:
    return _current.get() or _process_wide


def outside() -> Collector:
    """Declarations made without `loader`: in a notebook, or by a plain import."""
    return _process_wide


@contextlib.contextmanager
def collecting(collector: Collector) -> Iterator[Collector]:
    """Record the declarations made inside, and their mistakes, in this collector."""
    token = _current.set(collector)
    collector.is_loading = True
    try:
        yield collector
    finally:
        _current.reset(token)
