"""The heartbeat: what every query is doing right now, and what the run costs.

Listeners do not carry `query.status`, so it is asked for once a second. A line is written when
something changed, and at least every five seconds: no line means no life.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from headrace.driver import lock
from headrace.driver.epochs import Epochs
from headrace.driver.fleet import Fleet, Watched
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
    fleet: Fleet
    _last: dict[str, Any] = field(default_factory=dict)
    _asked_at: float = 0.0
    _written_at: float = 0.0
    _costed_at: float = 0.0
    _active_since: dict[str, float] = field(default_factory=dict)
    _java: _Java | None = None

    def sample(self) -> bool:
        """Whether it was time to look."""
        now = time.monotonic()
        if now - self._asked_at < EVERY_S:
            return False
        self._asked_at = now
        queries = {one.name: self._status(one, now) for one in self.fleet.all()}
        for one in self.fleet.all():
            if status := queries.get(one.name):
                heard_at = self.fleet.heard_at.get(one.run_id)
                self.fleet.outages.look(one.name, status, heard_at, now)
        if queries == self._last and now - self._written_at < AT_LEAST_EVERY_S:
            return True
        self._last, self._written_at = queries, now
        costs: dict[str, Any] = {}
        if now - self._costed_at >= COSTS_EVERY_S:
            self._costed_at, costs = now, self._costs()
        self.fleet.events.tell(Kind.SAMPLED, data={"queries": queries, **costs})
        return True

    def _status(self, one: Watched, now: float) -> dict[str, Any]:
        status = json.loads(one.query._jsq.status().json())
        found = {
            "message": status["message"],
            "data_available": status["isDataAvailable"],
            "trigger_active": status["isTriggerActive"],
        }
        if one.epochs is not None:
            found["trigger_active"] = True  # it is at work all the time, whatever Spark says
            self._tell_epochs(one.name, one.epochs)
        if self._is_slow(one, found["trigger_active"], now) and (java := self._asked()):
            found["tasks_done"] = java.tasks_done(one.run_id)
        return found

    def _tell_epochs(self, query: str, epochs: Epochs) -> None:
        if news := epochs.news():
            fresh = self.fleet.note_progress(query, news.progress)
            data = {"progress": news.progress, "fresh": fresh, "epochs": news.epochs}
            self.fleet.events.tell(Kind.PROGRESSED, query, data)

    def _is_slow(self, one: Watched, is_active: bool, now: float) -> bool:
        """In a batch that takes long. A trigger may be many batches: all that is available."""
        if not is_active:
            self._active_since.pop(one.run_id, None)
            return False
        since = self._active_since.setdefault(one.run_id, now)
        return now - max(since, self.fleet.progressed_at.get(one.run_id, since)) > SLOW_S

    def _costs(self) -> dict[str, Any]:
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
        java = self._asked()
        heap = java.heap() if java else {}
        return {"memory": memory, "cpu_s": round(cpu_s, 2), **heap, **self._disk_free()}

    def _disk_free(self) -> dict[str, int]:
        """Of the disks that state grows on: checkpoints, and where RocksDB keeps its files."""
        local = (lock.local_path(one.checkpoint) for one in self.fleet.all() if one.checkpoint)
        found = []
        for folder in {tempfile.gettempdir(), *(str(path) for path in local if path)}:
            with contextlib.suppress(OSError):
                found.append(shutil.disk_usage(folder).free)
        return {"disk_free": min(found)} if found else {}

    def _asked(self) -> _Java | None:
        """A script may have another session later, and with it another JVM."""
        spark = self.fleet.spark
        if spark is not None and (self._java is None or self._java.spark is not spark):
            self._java = _Java(spark)
        return self._java if spark is not None else None


class _Java:
    """What is asked of a JVM again and again. To find a class by its name takes a call for each
    part of the name, and a list that comes as an array one for each number in it."""

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark._jvm.java
        self.spark = spark
        self._runtime = java.lang.Runtime.getRuntime()
        self._as_text = java.util.Arrays.toString

    def heap(self) -> dict[str, int]:
        runtime = self._runtime
        used = runtime.totalMemory() - runtime.freeMemory()
        return {"heap_max": runtime.maxMemory(), "heap_used": used}

    def tasks_done(self, run_id: str) -> int:
        """Changes as the tasks of a slow batch advance: then it is slow, not stuck."""
        tracker: Any = self.spark.sparkContext._jsc.statusTracker()
        jobs = sorted(self._numbers(tracker.getJobIdsForGroup(run_id)))[-JOBS_LOOKED_AT:]
        done = 0
        for job in jobs:
            info = tracker.getJobInfo(job)
            for stage in self._numbers(info.stageIds()) if info else ():
                found = tracker.getStageInfo(stage)
                done += found.numCompletedTasks() if found else 0
        return (jobs[-1] if jobs else 0) * TASKS_MAX + done

    def _numbers(self, array: Any) -> list[int]:
        return list(json.loads(self._as_text(array)))
