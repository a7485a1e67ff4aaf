"""Counts of a batch that Spark's progress does not have: null fields, rows dropped by a lookup.

`health/conditions` compares them with the query's past. Called for every batch, on Spark's listener
bus. Invariant: never raises, and costs the query nothing. Counting takes at most 1/`REST` of the
time, so some batches are not counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from headrace.driver import field_counts, lookup_metrics, record_sample
from headrace.driver.count_plan import CountPlan
from headrace.driver.parse_points import ParsePoint
from headrace.driver.record_ages import RecordAges
from headrace.model.progress import Progress

REST = 200
REST_S_MAX = 15.0  # on a busy machine counting takes longer without costing more CPU
AFTER_FAILURE_S = 10.0  # the next batch would most likely fail for the same reason
LIST_S = 3600.0  # how often all fields are listed, including those that are never null

logger = logging.getLogger(__name__)


class BatchCounts:
    """The counts of all queries of a run."""

    def __init__(
        self,
        record_ages: RecordAges,
        rest: float = REST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._record_ages = record_ages
        self._rest = rest
        self._clock = clock
        self._plans: dict[str, CountPlan] = {}
        self._rests_until: dict[tuple[str, str], float] = {}
        self._listed_at: dict[str, float] = {}
        self._unknown: dict[str, set[str]] = {}  # unknown fields reported since `_listed_at`

    def note(self, query: str, plan: CountPlan) -> None:
        self._plans[query] = plan

    def count_batch(
        self, query: str, progress: Progress, checkpoint: Path | None, java: Any
    ) -> dict[str, int]:
        """`java` is the JVM's query object, None while the query is starting."""
        plan = self._plans.get(query)
        if plan is None or not progress.rows_in:
            return {}
        counts: dict[str, int] = {}
        if plan.lookups and java is not None:
            count = partial(lookup_metrics.counts, java, progress.batch, plan.lookups)
            counts |= self._count_if_due((query, "lookups"), count)
        for point in plan.parsed:
            count = partial(self._count_fields, point, progress, checkpoint)
            counts |= self._count_if_due((query, point.name), count)
        return counts

    def _count_fields(
        self, point: ParsePoint, progress: Progress, checkpoint: Path | None
    ) -> dict[str, int]:
        records = record_sample.sample_batch(point, progress, checkpoint, self._record_ages)
        if point.format == "parse_json":
            sample = field_counts.count_parse_json(records, point.fields)
        elif point.format == "json":
            sample = field_counts.count_json(records, point.fields)
        else:
            sample = field_counts.count_csv(records, point.fields, point.options)
        now = self._clock()
        unknown = self._unknown.setdefault(point.name, set())
        is_listed = now - self._listed_at.get(point.name, -LIST_S) < LIST_S
        if not is_listed:
            self._listed_at[point.name] = now
            unknown.clear()
        counts = sample.counts(point.name, unknown)
        if counts and not is_listed:
            counts = {f"null.{point.name}.{field.name}": 0 for field in point.fields} | counts
        return counts

    def _count_if_due(
        self, key: tuple[str, str], count: Callable[[], dict[str, int]]
    ) -> dict[str, int]:
        began = self._clock()
        if began < self._rests_until.get(key, 0.0):
            return {}
        rest_s_min = 0.0
        try:
            return count()
        except Exception as exc:  # a boundary: on Spark's bus nothing may be raised
            rest_s_min = AFTER_FAILURE_S
            logger.info("could not count %s of %s: %s", key[1], key[0], exc)
            return {}
        finally:
            took = self._clock() - began
            rest_s = max(rest_s_min, min(took * self._rest, REST_S_MAX))
            self._rests_until[key] = began + took + rest_s
