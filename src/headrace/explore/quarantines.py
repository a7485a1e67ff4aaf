"""What is in quarantine: how many records for which reason, and the newest of them.

Asks the committed files of the hidden queries, as `headrace sql` would. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.define.graph import ASIDE
from headrace.explore import names
from headrace.explore.answer import plain
from headrace.explore.ask import ask
from headrace.explore.names import Names

TEXT_MAX = 200
_COUNTED = "SELECT reason, count(*) FROM {} GROUP BY reason ORDER BY 2 DESC"
_NEWEST = (
    "SELECT at, reason, detail, source, partition, `offset`, bytes, version, raw"
    " FROM {} ORDER BY at DESC LIMIT {}"
)


@dataclass(frozen=True, slots=True)
class Record:
    """`raw` is as it came in; of one that was too large the beginning."""

    at: datetime
    reason: str
    detail: str | None
    source: str | None
    partition: int | None
    offset: int | None
    size: int | None
    version: str | None
    raw: bytes | None

    @property
    def text(self) -> str:
        """Safe to show: control characters and bytes that are no text come as escapes."""
        said = bytes(self.raw or b"")[:TEXT_MAX].decode("utf-8", "backslashreplace")
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in said)
        return shown[:TEXT_MAX] + ("…" if (self.size or 0) > TEXT_MAX else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "at": plain(self.at),
            "reason": self.reason,
            "detail": self.detail,
            "source": self.source,
            "partition": self.partition,
            "offset": self.offset,
            "bytes": self.size,
            "version": self.version,
            "text": self.text,
            "raw": plain(self.raw),
        }


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Of one view or stream. `reasons`: the most frequent first."""

    pipeline: str
    query: str
    path: str
    reasons: dict[str, int]
    newest: tuple[Record, ...] = ()

    @property
    def rows(self) -> int:
        return sum(self.reasons.values())

    @property
    def of(self) -> str:
        """The view or stream whose records these are."""
        return self.query.partition(f".{ASIDE}")[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "query": self.query,
            "of": self.of,
            "path": self.path,
            "rows": self.rows,
            "reasons": self.reasons,
            "newest": [record.to_json() for record in self.newest],
        }


def quarantines(known: Names, newest: int = 10) -> list[Quarantine]:
    """All there are, also those without a record yet."""
    keys = sorted(key for key in known.tables if key[0] and f".{ASIDE}" in key[1])
    return [_read(known, pipeline, query, newest) for pipeline, query in keys]


def _read(known: Names, pipeline: str, query: str, newest: int) -> Quarantine:
    table = names.spelled(pipeline, query)
    counted = ask(_COUNTED.format(table), known).rows
    found = ask(_NEWEST.format(table, newest), known).rows
    place = known.tables[pipeline, query].place or ""
    records = tuple(Record(*row) for row in found)
    return Quarantine(pipeline, query, place, dict(counted), records)


_BY_TIME = (
    "SELECT date_trunc('minute', at), reason, count(*) FROM {}"
    " WHERE at > now() - INTERVAL {} HOUR GROUP BY 1, 2 ORDER BY 1"
)
MINUTES_MAX = 180  # shown one by one; more are put together by the hour


def over_time(known: Names, one: Quarantine, hours: int = 24) -> list[tuple[float, str, int]]:
    """When they came: the beginning of each minute or hour, the reason, how many."""
    table = names.spelled(one.pipeline, one.query)
    found = ask(_BY_TIME.format(table, hours), known, rows_max=100_000).rows
    minutes = [(start.timestamp(), reason, count) for start, reason, count in found]
    if not minutes or minutes[-1][0] - minutes[0][0] < MINUTES_MAX * 60:
        return minutes
    by_hour: dict[tuple[float, str], int] = {}
    for start, reason, count in minutes:
        key = (start // 3600 * 3600, reason)
        by_hour[key] = by_hour.get(key, 0) + count
    return [(start, reason, count) for (start, reason), count in by_hour.items()]
