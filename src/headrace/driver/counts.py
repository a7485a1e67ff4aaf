"""What is counted of a batch beside Spark's own progress: fields that are null, rows that a lookup
drops. `model/conditions` compares it with the query's past.

Called for every batch, on Spark's bus. Invariant: never raises; the query itself does nothing for
it. It takes one part in `REST` of a query's time: batches between go uncounted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from headrace.driver import fieldcounts, lookups, records
from headrace.driver.counted import Counted
from headrace.driver.parsed import Parsed
from headrace.driver.written import Written

REST = 200
REST_S_MAX = 15.0  # on a busy machine it takes long without costing more
AFTER_FAILURE_S = 10.0  # the next batch would mostly fail alike
LIST_S = 3600.0  # so often all fields are named, also those that are never null

logger = logging.getLogger(__name__)


class Counts:
    """Of all queries of a run."""

    def __init__(
        self, written: Written, rest: float = REST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._written = written
        self._rest = rest
        self._clock = clock
        self._counted: dict[str, Counted] = {}
        self._rests_until: dict[tuple[str, str], float] = {}
        self._listed_at: dict[str, float] = {}
        self._unknown: dict[str, set[str]] = {}  # names that were told since then

    def note(self, query: str, counted: Counted) -> None:
        self._counted[query] = counted

    def of(
        self, query: str, progress: Mapping[str, Any], checkpoint: Path | None, java: Any
    ) -> dict[str, int]:
        """`java` is Spark's own query; None while it is just being started."""
        counted = self._counted.get(query)
        if counted is None or not progress.get("numInputRows"):
            return {}
        found: dict[str, int] = {}
        if counted.lookups and java is not None:
            batch = int(progress.get("batchId", -1))
            found |= self._paced(
                (query, "lookups"), lambda: lookups.counts(java, batch, counted.lookups)
            )
        for one in counted.parsed:
            count = partial(self._fields, one, progress, checkpoint)
            found |= self._paced((query, one.name), count)
        return found

    def _fields(
        self, one: Parsed, progress: Mapping[str, Any], checkpoint: Path | None
    ) -> dict[str, int]:
        raw = records.of_batch(one, progress, checkpoint, self._written)
        if one.format == "parse_json":
            sample = fieldcounts.of_parse_json(raw, one.fields)
        elif one.format == "json":
            sample = fieldcounts.of_json(raw, one.fields)
        else:
            sample = fieldcounts.of_csv(raw, one.fields, one.options)
        now = self._clock()
        names = self._unknown.setdefault(one.name, set())
        is_listed = now - self._listed_at.get(one.name, -LIST_S) < LIST_S
        if not is_listed:
            self._listed_at[one.name] = now
            names.clear()
        found = sample.counts(one.name, names)
        if found and not is_listed:
            found = {f"null.{one.name}.{of.name}": 0 for of in one.fields} | found
        return found

    def _paced(self, key: tuple[str, str], count: Callable[[], dict[str, int]]) -> dict[str, int]:
        began = self._clock()
        if began < self._rests_until.get(key, 0.0):
            return {}
        least_s = 0.0
        try:
            return count()
        except Exception as exc:  # a border: on Spark's bus nothing may be raised
            least_s = AFTER_FAILURE_S
            logger.info("%s of %s cannot be counted: %s", key[1], key[0], exc)
            return {}
        finally:
            took = self._clock() - began
            rest_s = max(least_s, min(took * self._rest, REST_S_MAX))
            self._rests_until[key] = began + took + rest_s
