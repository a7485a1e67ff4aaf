"""Progress of continuous queries, which Spark's listeners do not report.

The sampler polls the query's commit and offset logs once a second. The result has the form of
Spark's progress, so that other code need not know the difference.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.checkpoints import positions
from headrace.driver.plan_analysis import class_of, each, execution_of
from headrace.model.progress import epoch_to_spark, source_to_spark

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def from_query(query: StreamingQuery) -> EpochTracker | None:
    """None for a query that works in batches."""
    execution = execution_of(query)
    return EpochTracker(execution) if class_of(execution) == "ContinuousExecution" else None


class EpochTracker:
    """Tracks one query from its start. Epochs committed by an earlier run do not count."""

    def __init__(self, execution: Any) -> None:
        self._execution = execution
        self._ids = (
            str(execution.id().toString()),
            str(execution.runId().toString()),
            execution.name(),
        )
        self._updated_at = time.monotonic()
        self.last = self._last_committed_epoch()
        self._offset = None if self.last is None else self._offset_at(self.last)

    def poll(self) -> tuple[int, dict[str, Any]] | None:
        """The number of epochs committed since the last call, and their progress. None if 0."""
        from py4j.protocol import Py4JError

        with contextlib.suppress(Py4JError):  # the log is unreachable for now, or the query ends
            epoch = self._last_committed_epoch()
            if epoch is not None and epoch != self.last:
                return self._update(epoch, self._offset_at(epoch))
        return None

    def _update(self, epoch: int, offset: Any) -> tuple[int, dict[str, Any]]:
        before = self._first_offset() if self._offset is None else self._offset
        rows, now = rows_between(before, offset), time.monotonic()
        rate = round(rows / max(now - self._updated_at, 0.001), 1)
        count = epoch - (-1 if self.last is None else self.last)
        self.last, self._offset, self._updated_at = epoch, offset, now
        raw = epoch_to_spark(*self._ids, epoch, rows, rate)
        raw["sources"] = [source_to_spark(self._source_description(), before, offset, rows, rate)]
        return count, raw

    def _last_committed_epoch(self) -> int | None:
        epoch = self._execution.commitLog().getLatestBatchId()
        return int(epoch.get()) if epoch.isDefined() else None

    def _offset_at(self, epoch: int) -> Any:
        """A continuous query has one source."""
        entry = self._execution.offsetLog().get(epoch)
        return _parse(entry.get().offsets().apply(0).get()) if entry.isDefined() else None

    def _first_offset(self) -> Any:
        """The start offset of a query without committed epochs, from its plan."""
        plan = self._execution.lastExecution()
        for leaf in each(plan.logical().collectLeaves()) if plan is not None else ():
            if class_of(leaf) == "StreamingDataSourceV2ScanRelation":
                start = leaf.startOffset()
                return _parse(start.get()) if start.isDefined() else None
        return None

    def _source_description(self) -> str:
        sources = self._execution.sources()
        return str(sources.apply(0).toString()) if sources.size() else ""


def rows_between(before: Any, after: Any) -> int:
    """Rows between two offsets as Spark writes them: of topics, a rate source's counters, or line
    numbers. 0 for other offsets."""
    if isinstance(before, list) and isinstance(after, list):
        return sum(max(0, b - a) for a, b in zip(before, after, strict=False))
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return 0
    if all("value" in counter for counter in (*before.values(), *after.values())):
        # Each partition of a rate source counts in steps of the number of partitions.
        steps = [int(after[p]["value"]) - int(before[p]["value"]) for p in after if p in before]
        return max(0, sum(steps) // max(1, len(after)))
    began, ended = positions.from_json(before), positions.from_json(after)
    return sum(
        max(0, end - began.get(topic, {}).get(partition, 0))
        for topic, partitions in ended.items()
        for partition, end in partitions.items()
    )


def _parse(offset: Any) -> Any:
    try:
        return json.loads(offset.json())
    except ValueError:
        return None
