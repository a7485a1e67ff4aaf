"""What came out: the committed files of the demo's outputs and its alerts, as plain rows.

Read by the view while everything runs, and by the count when nothing does any more.
Invariant: of a sink's folder only what its log has committed is read, as `headrace sql` does.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from headrace.checkpoints import committed
from headrace.config import Settings
from headrace.demo.count import Found, Row, beat_row
from headrace.demo.places import PIPELINE, DemoPlaces
from headrace.errors import ConnectorError, StoreError
from headrace.model.places import Places
from headrace.store import alerts, db

QUARANTINE = "logs.quarantine"
_COLUMNS = (
    *("timestamp", "customer_id", "event_type", "metric", "level", "cluster_id", "load"),
    *("customer", "plan"),
)


def found(settings: Settings, demo: DemoPlaces, beats: Iterable[str]) -> Found:
    """Everything, for the count; `beats` are the lines of the heartbeats."""
    opened = alerts_of(Places(settings.state))
    return Found(
        history=Counter(history_rows(demo.history)),
        beats=Counter(map(beat_row, beats)),
        logins=dict(live_logins(Path(settings.result(PIPELINE, "logins")))),
        overloads=Counter(cluster_of(a) for a in opened if a.query == "overloaded"),
        silences=sum(a.query == "silent" for a in opened),
        quarantined=Counter(raw for raw, _ in quarantined(quarantine_folder(settings))),
    )


def quarantine_folder(settings: Settings) -> Path:
    return Path(settings.quarantined(PIPELINE, "logs"))


def files(folder: Path) -> list[Path]:
    """Committed files with something in them; none before the first batch."""
    try:
        return [Path(one.path) for one in committed.files(folder) if one.size > 0]
    except ConnectorError:
        return []


def history_rows(folder: Path) -> Iterator[Row]:
    """The day of the partition has to be the row's own: else it is a row nobody expects."""
    for path in files(folder):
        day = unquote(path.parent.name).removeprefix("date=")
        for row in _rows(path, _COLUMNS):
            yield row if _day(row[0]) == day else (*row, day)


def heartbeat_lines(folder: Path) -> Iterator[str]:
    for path in files(folder):
        yield from path.read_text("utf-8", errors="replace").splitlines()


def live_logins(folder: Path) -> list[tuple[int, int]]:
    """The newest snapshot: (minute in microseconds, logins), by minute."""
    for _ in range(3):  # the newest may be replaced while it is looked for
        newest = max(_snapshots(folder), key=lambda path: int(path.stem), default=None)
        if newest is None:
            return []
        with contextlib.suppress(FileNotFoundError):
            return sorted((row[0], row[1]) for row in _rows(newest, ("minute", "logins")))
    return []


def _snapshots(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.parquet") if path.stem.isdigit()]


def quarantined(folder: Path) -> Iterator[tuple[bytes, str]]:
    """(raw line, reason)"""
    for path in files(folder):
        yield from ((bytes(raw), str(why)) for raw, why in _rows(path, ("raw", "reason")))


@dataclass
class Growing:
    """A sum over the files of a sink, file by file: each is looked at once, however many come."""

    folder: Path
    of: Callable[[Path], Counter[str]]
    sums: Counter[str] = field(default_factory=Counter)
    seen: set[Path] = field(default_factory=set)

    def update(self) -> None:
        for path in files(self.folder):
            if path not in self.seen:
                self.sums += self.of(path)
                self.seen.add(path)


def reasons_in(path: Path) -> Counter[str]:
    return Counter(str(why) for (why,) in _rows(path, ("reason",)))


def rows_in(path: Path) -> Counter[str]:
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        return Counter(rows=pq.read_metadata(path).num_rows)
    return Counter(rows=len(path.read_bytes().splitlines()))


def alerts_of(places: Places) -> list[alerts.Alert]:
    """The pipeline's, newest first. None while there is no store yet."""
    try:
        with contextlib.closing(db.open_readonly(places.alerts)) as conn:
            listed = alerts.listed(conn, "all", alerts.LIMIT_MAX)
    except StoreError:
        return []
    return [one for one in listed if one.pipeline == PIPELINE]


def cluster_of(alert: alerts.Alert) -> int:
    found = alert.data.get("cluster_id")
    return found if isinstance(found, int) else -1


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Times as microseconds: no time zone has a say."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        table = file.read(columns=list(columns))
    parts: list[list[Any]] = []
    for name in columns:
        column = table.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        parts.append(column.to_pylist())
    yield from zip(*parts, strict=True)


def _day(at: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at // 1_000_000, UTC).date().isoformat()
