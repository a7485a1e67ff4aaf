"""Stops queries at a batch boundary, or cuts their batch at a deadline, and reports which it was.

`StreamingQuery.stop()` interrupts a running batch. So the query is first marked as terminated in
the JVM, and its trigger loop ends after the current batch. (A batch whose sink has not been called
yet stays planned and runs again at the next start.) In 65 test stops no write was cut.

Traps: once marked, `isActive` is False and `awaitTermination` returns although the batch still
runs; only the state of the query's thread can be trusted. `stop()` waits for Python functions,
which nothing can interrupt, and then raises, so it runs in a thread with a time limit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headrace.driver import plan_analysis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

TERMINATED = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED"
IN_A_BATCH = ("runOneBatch", "executeOneBatch")
POLL_S = 0.02
STOP_S = 5.0  # for all of Spark's stop() calls together


class DrainResult(StrEnum):
    CLEAN = "clean"
    CUT = "cut"


def drain(
    spark: SparkSession,
    queries: Sequence[StreamingQuery],
    *,
    timeout_s: float,
    is_hurried: Callable[[], bool],
    meanwhile: Callable[[], object] = lambda: None,
) -> dict[str, DrainResult]:
    """How each query (by run id) ended. When `is_hurried`, running batches are cut.

    `meanwhile` is called while waiting, to keep the heartbeat going.
    """
    waiting = {str(query.runId): query for query in queries}
    threads = {run_id: _mark_terminated(spark, query) for run_id, query in waiting.items()}
    ended: dict[str, DrainResult] = {}
    deadline = time.monotonic() + timeout_s
    while waiting and time.monotonic() < deadline and not is_hurried():
        between = [run_id for run_id in waiting if _is_between_batches(threads[run_id])]
        _stop([waiting.pop(run_id) for run_id in between])
        ended |= dict.fromkeys(between, DrainResult.CLEAN)
        meanwhile()
        time.sleep(POLL_S)
    _stop(list(waiting.values()))
    return ended | dict.fromkeys(waiting, DrainResult.CUT)


def _mark_terminated(spark: SparkSession, query: StreamingQuery) -> Any:
    """Returns the JVM's thread of the query."""
    execution = plan_analysis.execution_of(query)
    execution.state().set(plan_analysis.scala_object(spark, TERMINATED))
    return execution.queryExecutionThread()


def _is_between_batches(thread: Any) -> bool:
    if not thread.isAlive():
        return True
    frames = thread.getStackTrace()
    # Outermost frame first: the method is among the first dozen.
    order = range(len(frames) - 1, -1, -1)
    return all(frames[index].getMethodName() not in IN_A_BATCH for index in order)


def _stop(queries: Sequence[StreamingQuery]) -> None:
    threads = [threading.Thread(target=_stop_one, args=(q,), daemon=True) for q in queries]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + STOP_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _stop_one(query: StreamingQuery) -> None:
    try:
        query.stop()
    except Exception as exc:  # a boundary: the thread and the process end anyway
        logger.warning("stopping a query: %s", str(exc).partition("\n")[0])
