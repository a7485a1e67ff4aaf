"""One row of the failure catalogue. Read by `catalogue/`, `classify` and `page`.

Invariant: an entry is data. It names what a failure looks like and what it means; how text is read
and which of several entries wins is decided in `classify` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# A file sink skips batch numbers that its log has already, and a new checkpoint counts from 0.
NEW_CHECKPOINT = "a new `checkpoint` for the query and, for a file sink, a new folder"


class Kind(StrEnum):
    RETRY = "retry"  # goes away by itself: back off, no limit
    RETRY_THEN_HUMAN = "retry-then-human"  # may go away: `retries` tries, then a person
    HUMAN = "human"  # trying again cannot help
    DATA = "data"  # depends on the rows: same batch three times, then a person
    UNKNOWN = "unknown"  # nobody knows: treated like data


@dataclass(frozen=True, slots=True)
class Entry:
    """`what`, `why` and `fix` may hold `{name}` of a group in `patterns`, `hints` or `names`, or
    `{type}` and `{message}` of the exception. A part in square brackets that holds one is left out
    where the text does not tell it: `"A file is gone[: {path}]."`

    `number` is the row; several entries may share one where the row has several answers.
    """

    number: int
    slug: str
    kind: Kind
    what: str
    why: str
    fix: str
    conditions: tuple[
        str, ...
    ] = ()  # Spark error classes; "X.*" is X and all below it, "X*" a prefix
    patterns: tuple[str, ...] = ()  # searched in "class: message", without stack frames
    hints: tuple[str, ...] = ()  # patterns of wrappers: count only where nothing inside is known
    names: tuple[str, ...] = ()  # patterns that only find names for the words above
    retries: int | None = None  # of RETRY_THEN_HUMAN
