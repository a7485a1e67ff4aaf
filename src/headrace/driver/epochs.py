"""How a continuous query gets on. Spark's listeners are silent about such a query and its status
never changes, so its own log is looked at: which epoch is committed, and up to where.

Asked by the sampler once a second; the answer has the form of Spark's progress, so that nobody else
has to know the difference.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.checkpoints import positions

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True, slots=True)
class News:
    epochs: int  # committed since the last look
    progress: Mapping[str, Any]


def of(query: StreamingQuery) -> Epochs | None:
    """None for a query that works in batches: Spark tells of those itself."""
    execution: Any = query._jsq
    if execution.getClass().getSimpleName() == "StreamingQueryWrapper":
        execution = execution.streamingQuery()
    if execution.getClass().getSimpleName() != "ContinuousExecution":
        return None
    return Epochs(execution)


class Epochs:
    """Of one query, from its start on. What an earlier run has committed is not counted."""

    def __init__(self, execution: Any) -> None:
        self._execution = execution
        self._about = {
            "id": str(execution.id().toString()),
            "runId": str(execution.runId().toString()),
            "name": execution.name(),
        }
        self._looked_at = time.monotonic()
        self.last = self._committed()
        self._offset = None if self.last is None else self._offset_at(self.last)

    def news(self) -> News | None:
        """What was committed since the last look, if anything was."""
        from py4j.protocol import Py4JError

        with contextlib.suppress(Py4JError):  # a store that is down for a moment, or the query ends
            epoch = self._committed()
            if epoch is not None and epoch != self.last:
                return self._news(epoch, self._offset_at(epoch))
        return None

    def _news(self, epoch: int, offset: Any) -> News:
        before = self._first_offset() if self._offset is None else self._offset
        rows, now = rows_between(before, offset), time.monotonic()
        rate = round(rows / max(now - self._looked_at, 0.001), 1)
        count = epoch - (-1 if self.last is None else self.last)
        self.last, self._offset, self._looked_at = epoch, offset, now
        rates = {"inputRowsPerSecond": rate, "processedRowsPerSecond": rate}
        source = {"startOffset": before, "endOffset": offset, "numInputRows": rows, **rates}
        progress = {
            **self._about,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "batchId": epoch,
            "numInputRows": rows,
            **rates,
            "sources": [{"description": self._described(), **source}],
        }
        return News(count, progress)

    def _committed(self) -> int | None:
        found = self._execution.commitLog().getLatestBatchId()
        return int(found.get()) if found.isDefined() else None

    def _offset_at(self, epoch: int) -> Any:
        """A continuous query has one source."""
        found = self._execution.offsetLog().get(epoch)
        return _read(found.get().offsets().apply(0).get()) if found.isDefined() else None

    def _first_offset(self) -> Any:
        """Where a query without a past began: its plan says so."""
        plan = self._execution.lastExecution()
        if plan is None:
            return None
        leaves = plan.logical().collectLeaves()
        for position in range(leaves.size()):
            leaf = leaves.apply(position)
            if leaf.getClass().getSimpleName() == "StreamingDataSourceV2ScanRelation":
                start = leaf.startOffset()
                return _read(start.get()) if start.isDefined() else None
        return None

    def _described(self) -> str:
        sources = self._execution.sources()
        return str(sources.apply(0).toString()) if sources.size() else ""


def rows_between(before: Any, after: Any) -> int:
    """From two places of a source, as Spark writes them: topics, a rate's counters, or numbers of
    lines. 0 where they do not say."""
    if isinstance(before, list) and isinstance(after, list):
        return sum(max(0, b - a) for a, b in zip(before, after, strict=False))
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return 0
    if all("value" in one for one in (*before.values(), *after.values())):
        # Each partition of a rate counts in steps of as many as there are.
        steps = [int(after[p]["value"]) - int(before[p]["value"]) for p in after if p in before]
        return max(0, sum(steps) // max(1, len(after)))
    began, ended = positions.of_source(before), positions.of_source(after)
    return sum(
        max(0, there - began.get(topic, {}).get(partition, 0))
        for topic, partitions in ended.items()
        for partition, there in partitions.items()
    )


def _read(offset: Any) -> Any:
    try:
        return json.loads(offset.json())
    except ValueError:
        return None
