"""Reads quarantined records: counts by reason, and the newest records."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from headrace.define.graph import ASIDE
from headrace.explore import catalog
from headrace.explore.catalog import Catalog
from headrace.explore.query import ask
from headrace.explore.result import plain

TEXT_MAX = 200
_COUNTS = "SELECT reason, count(*) FROM {} GROUP BY reason ORDER BY 2 DESC"
_NEWEST = (
    "SELECT at, reason, detail, source, partition, `offset`, bytes, version, raw"
    " FROM {} ORDER BY at DESC LIMIT {}"
)


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """`raw` is the original record, truncated if it was too large."""

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
        """Safe to show: control characters and invalid bytes are escaped."""
        text = bytes(self.raw or b"")[:TEXT_MAX].decode("utf-8", "backslashreplace")
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        return shown[:TEXT_MAX] + ("…" if (self.size or 0) > TEXT_MAX else "")

    def to_json(self) -> dict[str, Any]:
        fields = {"bytes" if name == "size" else name: v for name, v in asdict(self).items()}
        return {name: plain(value) for name, value in fields.items()} | {"text": self.text}


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The quarantine of one view or stream. `reasons`: the most frequent first."""

    pipeline: str
    query: str
    path: str
    reasons: dict[str, int]
    newest: tuple[QuarantinedRecord, ...] = ()

    @property
    def rows(self) -> int:
        return sum(self.reasons.values())

    @property
    def origin(self) -> str:
        """The view or stream that quarantined the records."""
        return self.query.partition(f".{ASIDE}")[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "query": self.query,
            "of": self.origin,
            "path": self.path,
            "rows": self.rows,
            "reasons": self.reasons,
            "newest": [record.to_json() for record in self.newest],
        }


def quarantines(known: Catalog, newest: int = 10) -> list[Quarantine]:
    """All quarantines, including empty ones."""
    keys = sorted(key for key in known.tables if key[0] and f".{ASIDE}" in key[1])
    return [_read(known, pipeline, query, newest) for pipeline, query in keys]


def _read(known: Catalog, pipeline: str, query: str, newest: int) -> Quarantine:
    table = catalog.sql_name(pipeline, query)
    counts = ask(_COUNTS.format(table), known).rows
    rows = ask(_NEWEST.format(table, newest), known).rows
    place = known.tables[pipeline, query].place or ""
    records = tuple(QuarantinedRecord(*row) for row in rows)
    return Quarantine(pipeline, query, place, dict(counts), records)


_BY_TIME = (
    "SELECT date_trunc('minute', at), reason, count(*) FROM {}"
    " WHERE at > now() - INTERVAL {} HOUR GROUP BY 1, 2 ORDER BY 1"
)
MINUTES_MAX = 180  # a longer range is counted by the hour


def over_time(
    known: Catalog, quarantine: Quarantine, hours: int = 24
) -> list[tuple[float, str, int]]:
    """Counts over time: the start of each minute or hour, the reason, the number of records."""
    table = catalog.sql_name(quarantine.pipeline, quarantine.query)
    rows = ask(_BY_TIME.format(table, hours), known, rows_max=100_000).rows
    minutes = [(start.timestamp(), reason, count) for start, reason, count in rows]
    if not minutes or minutes[-1][0] - minutes[0][0] < MINUTES_MAX * 60:
        return minutes
    by_hour: Counter[tuple[float, str]] = Counter()
    for start, reason, count in minutes:
        by_hour[start // 3600 * 3600, reason] += count
    return [(start, reason, count) for (start, reason), count in by_hour.items()]
