"""The progress of one batch. The only module that knows the keys of Spark's progress object.

`progressed` events carry Spark's own object unchanged. The driver and the readers of events turn it
into a `Progress` once and pass that on.
Invariant: nothing in Spark's object can make this fail. A number that is missing or invalid is
None, or 0 if it is a count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from headrace.model.numbers import count, real, whole
from headrace.model.times import parse_time

ITEMS_MAX = 200  # sources and state operators of a query
OFFSET_MAX = 1 << 53
_NAME_MAX = 200


class Phase(StrEnum):
    """Parts of a batch, by Spark's names."""

    LATEST_OFFSET = "latestOffset"
    GET_BATCH = "getBatch"
    QUERY_PLANNING = "queryPlanning"
    WAL_COMMIT = "walCommit"
    ADD_BATCH = "addBatch"
    COMMIT_OFFSETS = "commitOffsets"
    COMMIT_BATCH = "commitBatch"
    WHOLE = "triggerExecution"


# The parts that are counted, in order.
PHASES = tuple(Phase)[:6]


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """Offsets are JSON as the source writes it."""

    description: str
    rows: int
    input_rate: float | None
    start_offset: Any
    end_offset: Any
    latest_offset: Any

    @property
    def start_entry(self) -> int | None:
        """The log entry of a file source before the batch."""
        return _log_entry(self.start_offset)

    @property
    def end_entry(self) -> int | None:
        return _log_entry(self.end_offset)

    @property
    def partitions(self) -> int | None:
        """The number of partitions, if its offsets are {topic: {partition: offset}}."""
        topics = [one for one in _mapping(self.end_offset).values() if isinstance(one, Mapping)]
        return sum(len(one) for one in topics) if topics else None

    @property
    def waiting_rows(self) -> int | None:
        """Rows that wait in a source that counts its rows by partition."""
        latest, end = self.latest_offset, self.end_offset
        if not isinstance(latest, Mapping) or not isinstance(end, Mapping):
            return None
        total = 0
        for topic, partitions in latest.items():
            done = end.get(topic)
            if not isinstance(partitions, Mapping) or not isinstance(done, Mapping):
                return None
            for partition, offset in partitions.items():
                newest, read = whole(offset), whole(done.get(partition, 0))
                if newest is None or read is None:
                    return None
                total += max(0, newest - read)
        return total


@dataclass(frozen=True, slots=True)
class StateOperator:
    name: str
    rows: int | None
    rows_updated: int
    rows_removed: int
    rows_late: int  # dropped, since they came after the watermark
    memory_bytes: int | None
    file_bytes: int | None  # of RocksDB
    commit_ms: float  # over all partitions
    partitions: int


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Event times of a batch, in seconds since the epoch."""

    watermark: float | None = None  # 0.0: none yet
    newest: float | None = None
    mean: float | None = None
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    run_id: str  # Spark's, of the query
    batch: int | None
    began_at: float | None
    rows_in: int
    rows_out: int | None  # None: the sink does not count
    input_rate: float | None
    processing_rate: float | None
    batch_ms: float | None
    phases: Mapping[str, float]  # milliseconds
    sources: tuple[SourceProgress, ...]
    operators: tuple[StateOperator, ...]
    event_times: EventTimes
    observed: Mapping[str, Any]  # by name of the observation
    raw: Mapping[str, Any] = field(repr=False)  # Spark's own object

    @property
    def committed_at(self) -> float | None:
        took_ms = self.phases.get(Phase.WHOLE)
        if took_ms is None or self.began_at is None:
            return None
        return self.began_at + max(0.0, took_ms) / 1000

    @property
    def rows_late(self) -> int:
        return _total(one.rows_late for one in self.operators) or 0

    @property
    def state_rows(self) -> int | None:
        return _total(one.rows for one in self.operators)

    @property
    def state_bytes(self) -> int | None:
        return _total(one.memory_bytes for one in self.operators)

    @property
    def lag_rows(self) -> int | None:
        """Rows that wait in those sources that count them."""
        return _total(one.waiting_rows for one in self.sources)

    @property
    def partitions(self) -> int | None:
        """The partitions of all sources; None if a source has none."""
        found = [one.partitions for one in self.sources]
        return None if None in found else _total(found)


def query_name(raw: Mapping[str, Any]) -> str:
    return str(raw.get("name") or raw.get("id"))


def from_spark(raw: Any) -> Progress:
    body = _mapping(raw)
    sources = tuple(_source(one) for one in _objects(body.get("sources")))
    durations = _mapping(body.get("durationMs"))
    phases = {str(k): ms for k, v in durations.items() if (ms := real(v)) is not None}
    rows_in = whole(body.get("numInputRows"))
    rows_out = whole(_mapping(body.get("sink")).get("numOutputRows"))
    return Progress(
        run_id=str(body.get("runId")),
        batch=whole(body.get("batchId")),
        began_at=parse_time(body.get("timestamp")),
        # PySpark's own object has them only in the sources.
        rows_in=max(0, (_total(one.rows for one in sources) if rows_in is None else rows_in) or 0),
        rows_out=None if rows_out is None or rows_out < 0 else rows_out,  # -1: not counted
        input_rate=real(body.get("inputRowsPerSecond")),
        processing_rate=real(body.get("processedRowsPerSecond")),
        batch_ms=phases.get(Phase.WHOLE, real(body.get("batchDuration"))),
        phases=phases,
        sources=sources,
        operators=tuple(_operator(one) for one in _objects(body.get("stateOperators"))),
        event_times=_event_times(_mapping(body.get("eventTime"))),
        observed=_mapping(body.get("observedMetrics")),
        raw=body,
    )


def epoch_to_spark(
    id_: str, run_id: str, name: str | None, epoch: int, rows: int, rate: float
) -> dict[str, Any]:
    """An epoch of a continuous query, which Spark does not report, in the form of its object."""
    return {
        "id": id_,
        "runId": run_id,
        "name": name,
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "batchId": epoch,
        **_rows_to_spark(rows, rate),
    }


def source_to_spark(
    description: str, before: Any, after: Any, rows: int, rate: float
) -> dict[str, Any]:
    offsets = {"startOffset": before, "endOffset": after}
    return {"description": description, **offsets, **_rows_to_spark(rows, rate)}


def _rows_to_spark(rows: int, rate: float) -> dict[str, float]:
    return {"numInputRows": rows, "inputRowsPerSecond": rate, "processedRowsPerSecond": rate}


def _source(body: Mapping[str, Any]) -> SourceProgress:
    return SourceProgress(
        description=str(body.get("description")),
        rows=count(body.get("numInputRows")),
        input_rate=real(body.get("inputRowsPerSecond")),
        start_offset=body.get("startOffset"),
        end_offset=body.get("endOffset"),
        latest_offset=body.get("latestOffset"),
    )


def _operator(body: Mapping[str, Any]) -> StateOperator:
    return StateOperator(
        name=str(body.get("operatorName"))[:_NAME_MAX],
        rows=whole(body.get("numRowsTotal")),
        rows_updated=count(body.get("numRowsUpdated")),
        rows_removed=count(body.get("numRowsRemoved")),
        rows_late=count(body.get("numRowsDroppedByWatermark")),
        memory_bytes=whole(body.get("memoryUsedBytes")),
        file_bytes=whole(_mapping(body.get("customMetrics")).get("rocksdbSstFileSize")),
        commit_ms=real(body.get("commitTimeMs")) or 0.0,
        partitions=max(1, count(body.get("numShufflePartitions"))),
    )


def _event_times(body: Mapping[str, Any]) -> EventTimes:
    return EventTimes(*(parse_time(body.get(name)) for name in ("watermark", "max", "avg", "min")))


def _log_entry(offset: Any) -> int | None:
    entry = whole(_mapping(offset).get("logOffset"))
    return entry if entry is not None and -1 <= entry < OFFSET_MAX else None


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return whole(sum(known)) if known else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """An item that is not an object counts as an empty one: places of sources have a meaning."""
    return [_mapping(one) for one in value[:ITEMS_MAX]] if isinstance(value, list | tuple) else []
