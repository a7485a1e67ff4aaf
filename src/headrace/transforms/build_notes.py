"""Notes from transforms to the driver that builds the pipeline: side queries and timers.

A DataFrame has no side output, so `parse_json` leaves a note about its bad records, and the driver
creates a hidden query for them. Invariant: notes exist only while a definition is built (`taking`);
a transform that is used elsewhere finds none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class TimerNote:
    """A transform with timers: without an interval its batches would run in a busy loop."""

    transform: str
    limit_s: float


@dataclass(frozen=True)
class ParseNote:
    frame: DataFrame
    column: str
    schema: StructType


@dataclass
class BuildNotes:
    """Notes of one definition (a view or a query). `version` is that of the deployed code."""

    version: str | None = None
    is_batch: bool = False
    is_real_time: bool = False  # Python is not supported there
    is_from_brokers: bool = False  # all its sources are brokers, so the volume may be high
    is_local: bool = True  # workers use this installation and its packages
    asides: list[DataFrame] = field(default_factory=list)
    timed: list[TimerNote] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)  # of each parse_json, in order
    opened: list[ParseNote] = field(default_factory=list)  # of each parse_json


_NOTES: ContextVar[BuildNotes | None] = ContextVar("headrace_notes", default=None)


def current() -> BuildNotes | None:
    return _NOTES.get()


@contextmanager
def taking(notes: BuildNotes) -> Iterator[BuildNotes]:
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)
