"""An example row for a finding: a row whose event time is far in the future.

Read when a batch's counts show such rows, at most once a minute per query. The batch's plan is run
again on its input, in a separate thread and session, so neither the query nor Spark's bus waits.
Invariant: never raises; at worst there is no example.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace import secrets
from headrace.driver import plan_analysis
from headrace.failures.redaction import redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

EVERY_S = 60.0
COLUMNS_MAX = 5
VALUE_MAX = 40
AHEAD = "ahead"
_OPERATION_CHECK = "spark.sql.streaming.unsupportedOperationCheck"  # the plan is a stream's


@dataclass(slots=True)
class ExampleRows:
    _examples: dict[str, dict[str, str]] = field(default_factory=dict)  # by query and kind
    _read_at: dict[str, float] = field(default_factory=dict)

    def refresh(
        self,
        query: str,
        counts: Mapping[str, float],
        batch: int | None,
        java: Any,
        spark: SparkSession | None,
    ) -> dict[str, str]:
        """The examples known so far. Called on Spark's bus, right after the batch; `java` is the
        JVM's query object."""
        now = time.monotonic()
        is_due = now - self._read_at.get(query, -EVERY_S) >= EVERY_S
        if counts.get(AHEAD) and java is not None and spark is not None and is_due:
            self._read_at[query] = now
            try:
                execution = java.streamingQuery().lastExecution()
                if execution is not None and execution.currentBatchId() == batch:
                    arguments = (query, execution, spark)
                    threading.Thread(target=self._read, args=arguments, daemon=True).start()
            except Exception as exc:  # a boundary: on Spark's bus nothing may be raised
                logger.info("no example of %s: %s", query, exc)
        return dict(self._examples.get(query, {}))

    def _read(self, query: str, execution: Any, spark: SparkSession) -> None:
        try:
            example = _read_future_row(execution, spark)
        except Exception as exc:  # a boundary: a thread, and only an example
            logger.info("no example of %s: %s", query, exc)
            return
        if example:
            self._examples.setdefault(query, {})[AHEAD] = redact(example, secrets.resolved_values())


def _read_future_row(execution: Any, spark: SparkSession) -> str | None:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    own = spark.newSession()
    own.conf.set(_OPERATION_CHECK, "false")
    jvm: Any = spark._jvm
    for node in plan_analysis.walk(execution.analyzed()):
        if plan_analysis.class_of(node) != "EventTimeWatermark":
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
    plain = "".join(char if char.isprintable() else " " for char in value)
    return plain if len(plain) <= VALUE_MAX else plain[: VALUE_MAX - 1] + "…"
