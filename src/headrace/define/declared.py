"""What a pipeline's file has declared, as the decorators recorded it.

`api` writes here while the file runs, `loader` hands it on, `graph` reads it. A file being loaded
has a collector of its own (a ContextVar), so that several can be loaded in one process; outside of
that, in a notebook or a test of the user, there is one for the process, and the newest wins.
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
class Declared:
    """One definition. `kind` is source, table, view, udf or query."""

    name: str
    kind: str
    function: Callable[..., Any]
    place: Place
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Collector:
    """`root` is where the code runs from (a deployed copy), `project` where the user wrote it."""

    root: Path | None = None
    project: Path | None = None
    is_loading: bool = False  # then mistakes are collected; otherwise raised at once
    declared: list[Declared] = field(default_factory=list)
    problems: list[Error] = field(default_factory=list)
    modules: tuple[ModuleType, ...] = ()  # the user's own, which workers cannot import by name

    def add(self, one: Declared) -> None:
        if not self.is_loading:
            self.declared = [d for d in self.declared if (d.kind, d.name) != (one.kind, one.name)]
        self.declared.append(one)

    def refuse(self, problem: Error) -> None:
        if not self.is_loading:
            raise problem
        self.problems.append(problem)

    def place(self, file: str, line: int) -> Place:
        """The place as the user knows it: relative to the project, also for the deployed copy."""
        path = os.path.realpath(file)
        for folder in (self.root, self.project):
            if folder is not None and (inside := _relative(path, folder)):
                return Place(inside, line)
        return Place(file, line)

    def owns(self, file: str) -> bool:
        """Whether a file is the user's own, rather than of a library."""
        path = os.path.realpath(file)
        folders = [f for f in (self.root, self.project) if f is not None]
        inside = [rel for f in folders if (rel := _relative(path, f))]
        return any("site-packages" not in rel and ".venv" not in rel for rel in inside)

    def innermost(self, traceback: TracebackType | None) -> Place | None:
        """The user's line nearest to where an exception was raised."""
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
    """What was declared without a file being loaded: in a notebook, or by a plain import."""
    return _process_wide


class collecting:  # noqa: N801 — reads as a statement: `with collecting(collector):`
    """Everything declared inside goes to this collector."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector

    def __enter__(self) -> Collector:
        self._token = _current.set(self.collector)
        self.collector.is_loading = True
        return self.collector

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
