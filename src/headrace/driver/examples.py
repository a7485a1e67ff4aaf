"""One row that shows what is wrong: the event time that is farthest ahead in a batch.

Asked for when the counts of a batch say that there is one, at most once a minute for a query. The
batch's own plan still knows its input, so only that is read again: in a thread of its own, with a
session of its own, so that neither the query nor Spark's bus waits for it.
Invariant: never raises; what is not known is left out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace import references
from headrace.driver import analyse
from headrace.failures.redact import redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

EVERY_S = 60.0
COLUMNS_MAX = 5
VALUE_MAX = 40
AHEAD = "ahead"
_UNCHECKED = "spark.sql.streaming.unsupportedOperationCheck"  # a batch's plan is a stream's


@dataclass(slots=True)
class Examples:
    """By query and by what they show; `of` gives what is known so far."""

    _found: dict[str, dict[str, str]] = field(default_factory=dict)
    _looked_at: dict[str, float] = field(default_factory=dict)

    def of(
        self,
        query: str,
        counts: Mapping[str, float],
        progress: Mapping[str, Any],
        java: Any,
        spark: SparkSession | None,
    ) -> dict[str, str]:
        """`java` is Spark's own query. Called on Spark's bus, right after the batch."""
        now = time.monotonic()
        is_due = now - self._looked_at.get(query, -EVERY_S) >= EVERY_S
        if counts.get(AHEAD) and java is not None and spark is not None and is_due:
            self._looked_at[query] = now
            try:
                execution = java.streamingQuery().lastExecution()
                if execution is not None and execution.currentBatchId() == progress.get("batchId"):
                    looking = (query, execution, spark)
                    threading.Thread(target=self._look, args=looking, daemon=True).start()
            except Exception as exc:  # a border: on Spark's bus nothing may be raised
                logger.info("no example of %s: %s", query, exc)
        return dict(self._found.get(query, {}))

    def _look(self, query: str, execution: Any, spark: SparkSession) -> None:
        try:
            found = _farthest_ahead(execution, spark)
        except Exception as exc:  # a border: a thread of its own, and only an example
            logger.info("no example of %s: %s", query, exc)
            return
        if found:
            self._found.setdefault(query, {})[AHEAD] = redact(found, references.resolved())


def _farthest_ahead(execution: Any, spark: SparkSession) -> str | None:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    own = spark.newSession()
    own.conf.set(_UNCHECKED, "false")
    jvm: Any = spark._jvm
    for node in analyse.walk(execution.analyzed()):
        if analyse.class_of(node) != "EventTimeWatermark":
            continue
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(own._jsparkSession, node.child())
        name = str(node.eventTime().name())
        is_ahead = F.col(f"`{name}`") > F.expr("current_timestamp() + INTERVAL 10 MINUTES")
        frame = DataFrame(rows, own).where(is_ahead)
        others = [f"`{column}`" for column in frame.columns if column != name][:COLUMNS_MAX]
        shown = frame.select(*(F.col(c).cast("string") for c in (*others, f"`{name}`")))
        for row in shown.limit(1).collect():
            return ", ".join(f"{k} {_short(v)}" for k, v in row.asDict().items() if v is not None)
    return None


def _short(value: str) -> str:
    plain = "".join(sign if sign.isprintable() else " " for sign in value)
    return plain if len(plain) <= VALUE_MAX else plain[: VALUE_MAX - 1] + "…"
