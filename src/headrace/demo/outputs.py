"""Reads the demo's outputs as plain rows: committed files and alerts.

The view reads them while the pipeline runs, the count after it has stopped.
Invariant: reads only the files that the sink's log lists as committed, as `headrace sql` does.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from headrace.checkpoints import committed_files
from headrace.config import Settings
from headrace.demo.loss_count import Outputs, Row, beat_row
from headrace.demo.paths import PIPELINE, DemoPaths
from headrace.errors import ConnectorError
from headrace.model.state_paths import StatePaths
from headrace.store import alerts, db

QUARANTINE = "logs.quarantine"
_COLUMNS = (
    *("timestamp", "customer_id", "event_type", "metric", "level", "cluster_id", "load"),
    *("customer", "plan"),
)


def read_all(settings: Settings, demo: DemoPaths, beats: Iterable[str]) -> Outputs:
    """All outputs, for the count; `beats` are the lines of the heartbeats."""
    opened = alerts_of(StatePaths(settings.state))
    return Outputs(
        history=Counter(history_rows(demo.history)),
        beats=Counter(map(beat_row, beats)),
        logins=dict(live_logins(settings)),
        overloads=Counter(cluster_of(a) for a in opened if a.query == "overloaded"),
        silences=sum(a.query == "silent" for a in opened),
        quarantined=Counter(raw for raw, _ in quarantined_lines(quarantine_folder(settings))),
    )


def quarantine_folder(settings: Settings) -> Path:
    return Path(settings.quarantine_path(PIPELINE, "logs"))


def files(folder: Path) -> list[Path]:
    """Committed files that are not empty; none before the first batch."""
    try:
        return [Path(file.path) for file in committed_files.files(folder) if file.size > 0]
    except ConnectorError:
        return []


def history_rows(folder: Path) -> Iterator[Row]:
    """A row in the partition of another day gets an extra column, so it is never expected."""
    for path in files(folder):
        day = unquote(path.parent.name).removeprefix("date=")
        for row in _rows(path, _COLUMNS):
            yield row if _day(row[0]) == day else (*row, day)


def heartbeat_lines(folder: Path) -> Iterator[str]:
    for path in files(folder):
        yield from path.read_text("utf-8", errors="replace").splitlines()


def live_logins(settings: Settings) -> list[tuple[int, int]]:
    """The newest snapshot: (minute in microseconds, logins), by minute."""
    folder = Path(settings.result(PIPELINE, "logins"))
    for _ in range(3):  # the newest may be replaced while we read it
        snapshots = (path for path in folder.glob("*.parquet") if path.stem.isdigit())
        newest = max(snapshots, key=lambda path: int(path.stem), default=None)
        if newest is None:
            return []
        with contextlib.suppress(FileNotFoundError):
            return sorted((row[0], row[1]) for row in _rows(newest, ("minute", "logins")))
    return []


def quarantined_lines(folder: Path) -> Iterator[tuple[bytes, str]]:
    """(raw line, reason)"""
    for path in files(folder):
        yield from ((bytes(raw), str(why)) for raw, why in _rows(path, ("raw", "reason")))


@dataclass
class GrowingOutput:
    """A sum over the files of a sink; reads each file once."""

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


def alerts_of(places: StatePaths) -> list[alerts.StoredAlert]:
    """Alerts of the pipeline, newest first."""
    ask = partial(alerts.list_alerts, state="all", limit=alerts.LIMIT_MAX, pipeline=PIPELINE)
    return db.read(places.alerts, ask, is_optional=True) or []


def cluster_of(alert: alerts.StoredAlert) -> int:
    found = alert.data.get("cluster_id")
    return found if isinstance(found, int) else -1


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Times as microseconds, so time zones do not matter."""
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
    return datetime.fromtimestamp(at // 1_000_000, UTC).date().isoformat()
