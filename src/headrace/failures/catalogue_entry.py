"""The type of an entry in the failure catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# A file sink skips batch numbers that are in its log, and a new checkpoint counts from 0.
NEW_CHECKPOINT = "a new `checkpoint` for the query (and a new folder for a file sink)"


class FailureKind(StrEnum):
    RETRY = "retry"  # transient: retried with backoff, up to `restart.retries`
    RETRY_THEN_HUMAN = "retry-then-human"  # may be transient: `retries` attempts, then a person
    HUMAN = "human"  # a retry cannot help
    DATA = "data"  # depends on the rows: three failures in the same batch, then a person
    UNKNOWN = "unknown"  # treated like data


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """`what`, `why` and `fix` may contain `{name}`, where name is a group in `patterns` or `names`,
    or `type`, `message` or `fingerprint` of the exception. A part in square brackets is omitted if
    its name has no value: `"A file is missing[: {path}]."`

    `fix` does not promise a retry: `restart.retries` may be used up.
    """

    slug: str
    kind: FailureKind
    what: str
    why: str
    fix: str
    # Spark error classes: "X.*" matches X and its subclasses, "X*" is a prefix
    conditions: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()  # searched in "class: message", without stack frames
    hints: tuple[str, ...] = ()  # patterns of wrappers: used if no inner exception is known
    names: tuple[str, ...] = ()  # patterns that only provide values for the texts
    retries: int | None = None  # of RETRY_THEN_HUMAN
