"""What a transform needs of the build around it: side queries, and conditions on the trigger.

A DataFrame has no side output, so `parse_json` leaves a note here of the rows it has set aside,
and the driver makes a hidden query of them. Invariant: notes are taken only while a definition is
being built (`taking`); a transform that is used elsewhere finds none and says what that means.
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
class Timed:
    """It works by timers: without an interval every batch would follow the last at once."""

    transform: str
    limit_s: float


@dataclass(frozen=True)
class Opened:
    """Records that `parse_json` makes columns of: a column of a frame, and the fields wanted."""

    frame: DataFrame
    column: str
    schema: StructType


@dataclass
class Notes:
    """Of one definition (a view or a query). `version` is the deployed code's."""

    version: str | None = None
    is_batch: bool = False
    is_real_time: bool = False  # for a query where no Python may run
    is_from_brokers: bool = False  # all that it reads, so that there may be much of it
    is_local: bool = True  # workers are of this installation, and so have its packages
    asides: list[DataFrame] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    engines: list[str] = field(default_factory=list)  # of every parse_json, in order
    opened: list[Opened] = field(default_factory=list)  # by the same


_NOTES: ContextVar[Notes | None] = ContextVar("headrace_notes", default=None)


def current() -> Notes | None:
    return _NOTES.get()


@contextmanager
def taking(notes: Notes) -> Iterator[Notes]:
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)
