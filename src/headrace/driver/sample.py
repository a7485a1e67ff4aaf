"""The heartbeat: what every query is doing right now, and what the run costs.

Listeners do not carry `query.status`, so it is asked for once a second. A line is written when
something changed, and at least every five seconds: no line means no life.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from headrace.driver.events import EventsFile
from headrace.driver.fleet import Watched
from headrace.model.events import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 1.0
AT_LEAST_EVERY_S = 5.0
COSTS_EVERY_S = 5.0  # adding up a process tree costs some milliseconds itself
SLOW_S = 10.0  # below that nobody wonders whether a batch is stuck
JOBS_LOOKED_AT = 3
TASKS_MAX = 1_000_000


@dataclass(slots=True)
class Sampler:
    events: EventsFile
    _last: dict[str, Any] = field(default_factory=dict)
    _asked_at: float = 0.0
    _written_at: float = 0.0
    _costed_at: float = 0.0
    _active_since: dict[str, float] = field(default_factory=dict)

    def sample(self, spark: SparkSession | None, watched: list[Watched]) -> bool:
        """Whether it was time to look."""
        now = time.monotonic()
        if now - self._asked_at < EVERY_S:
            return False
        self._asked_at = now
        queries = {one.name: self._status(spark, one, now) for one in watched}
        if queries == self._last and now - self._written_at < AT_LEAST_EVERY_S:
            return True
        self._last, self._written_at = queries, now
        costs: dict[str, Any] = {}
        if now - self._costed_at >= COSTS_EVERY_S:
            self._costed_at, costs = now, _costs(spark)
        self.events.tell(Kind.SAMPLED, data={"queries": queries, **costs})
        return True

    def _status(self, spark: SparkSession | None, one: Watched, now: float) -> dict[str, Any]:
        status = json.loads(one.query._jsq.status().json())
        found = {
            "message": status["message"],
            "data_available": status["isDataAvailable"],
            "trigger_active": status["isTriggerActive"],
        }
        if not found["trigger_active"]:
            self._active_since.pop(one.name, None)
        elif now - self._active_since.setdefault(one.name, now) > SLOW_S and spark is not None:
            found["tasks_done"] = _tasks_done(spark, one.run_id)
        return found


def _tasks_done(spark: SparkSession, run_id: str) -> int:
    """A number that changes as the tasks of a slow batch advance: then it is slow, not stuck."""
    tracker = spark.sparkContext.statusTracker()
    jobs = sorted(tracker.getJobIdsForGroup(run_id))[-JOBS_LOOKED_AT:]
    done = 0
    for job in jobs:
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            found = tracker.getStageInfo(stage)
            done += found.numCompletedTasks if found else 0
    return (jobs[-1] if jobs else 0) * TASKS_MAX + done


def _costs(spark: SparkSession | None) -> dict[str, Any]:
    me = psutil.Process()
    processes = [me, *me.children(recursive=True)]
    memory, cpu_s = 0, 0.0
    for process in processes:
        try:
            memory += process.memory_info().rss
            times = process.cpu_times()
        except psutil.Error:
            continue  # a worker that ended between the two questions
        cpu_s += times.user + times.system
    costs: dict[str, Any] = {"memory": memory, "cpu_s": round(cpu_s, 2)}
    if spark is not None:
        runtime = spark._jvm.java.lang.Runtime.getRuntime()
        costs["heap_max"] = runtime.maxMemory()
        costs["heap_used"] = runtime.totalMemory() - runtime.freeMemory()
    return costs
