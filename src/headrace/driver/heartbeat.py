"""The heartbeat: the status of every query, and the CPU, memory and disk that the run uses.

Listener events do not have `query.status`, so it is polled once a second. An event is written when
something changed, and at least every five seconds: no event means the driver is dead or stuck.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from headrace import config
from headrace.driver import session
from headrace.driver.continuous_progress import EpochTracker
from headrace.driver.running_queries import Queries, RunningQuery
from headrace.model import progress
from headrace.model.events import EventKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 1.0
AT_LEAST_EVERY_S = 5.0
COSTS_EVERY_S = 5.0  # reading a process tree takes milliseconds itself
SLOW_S = 10.0  # a faster batch is never taken for a stuck one
JOBS_READ = 3
TASKS_MAX = 1_000_000


@dataclass(slots=True)
class Sampler:
    queries: Queries
    _last: dict[str, Any] = field(default_factory=dict)
    _sampled_at: float = 0.0
    _written_at: float = 0.0
    _costed_at: float = 0.0
    _active_since: dict[str, float] = field(default_factory=dict)
    _java: _Java | None = None

    def sample(self) -> bool:
        """Returns False if the last sample is too recent."""
        now = time.monotonic()
        if now - self._sampled_at < EVERY_S:
            return False
        self._sampled_at = now
        statuses: dict[str, Any] = {}
        for query in self.queries.all():
            status = statuses[query.name] = self._status(query, now)
            heard_at = self.queries.heard_at.get(query.run_id)
            self.queries.outages.check(query.name, status, heard_at, now)
        if statuses == self._last and now - self._written_at < AT_LEAST_EVERY_S:
            return True
        self._last, self._written_at = statuses, now
        costs: dict[str, Any] = {}
        if now - self._costed_at >= COSTS_EVERY_S:
            self._costed_at, costs = now, self._costs()
        self.queries.events.tell(EventKind.SAMPLED, data={"queries": statuses, **costs})
        return True

    def _status(self, query: RunningQuery, now: float) -> dict[str, Any]:
        spark_status = json.loads(query.query._jsq.status().json())
        status = {
            "message": spark_status["message"],
            "data_available": spark_status["isDataAvailable"],
            "trigger_active": spark_status["isTriggerActive"],
        }
        if query.epochs is not None:
            status["trigger_active"] = True  # always, for a continuous query
            self._report_epochs(query.name, query.epochs)
        if self._is_slow(query, status["trigger_active"], now) and (java := self._get_java()):
            status["tasks_done"] = java.tasks_done(query.run_id)
        return status

    def _report_epochs(self, query: str, epochs: EpochTracker) -> None:
        if update := epochs.poll():
            count, raw = update
            facts = self.queries.note_progress(query, progress.from_spark(raw))
            data = {"progress": raw, **facts, "epochs": count}
            self.queries.events.tell(EventKind.PROGRESSED, query, data)

    def _is_slow(self, query: RunningQuery, is_active: bool, now: float) -> bool:
        """Whether its batch takes long. One trigger may run many batches (AvailableNow)."""
        if not is_active:
            self._active_since.pop(query.run_id, None)
            return False
        since = self._active_since.setdefault(query.run_id, now)
        return now - max(since, self.queries.progressed_at.get(query.run_id, since)) > SLOW_S

    def _costs(self) -> dict[str, Any]:
        me = psutil.Process()
        java = self._get_java()
        resident: dict[int, int] = {}
        cpu_s = 0.0
        for process in (me, *me.children(recursive=True)):
            try:
                resident[process.pid] = process.memory_info().rss
                times = process.cpu_times()
            except psutil.Error:
                continue  # a worker that has just ended
            cpu_s += times.user + times.system
        costs: dict[str, Any] = {
            "memory": sum(resident.values()),
            "driver_memory": resident.get(me.pid),
            "jvm_memory": resident.get(java.pid or 0) if java else None,
            "cpu_s": round(cpu_s, 2),
        }
        return costs | (java.heap() if java else {}) | self._disk_free()

    def _disk_free(self) -> dict[str, int]:
        """The least free space of the disks of checkpoints and of RocksDB's files."""
        checkpoints = [query.checkpoint for query in self.queries.all() if query.checkpoint]
        local = map(config.local_path, checkpoints)
        free = []
        for folder in {tempfile.gettempdir(), *(str(path) for path in local if path)}:
            with contextlib.suppress(OSError):
                free.append(shutil.disk_usage(folder).free)
        return {"disk_free": min(free)} if free else {}

    def _get_java(self) -> _Java | None:
        """For the current session: a script may start another one, with another JVM."""
        spark = self.queries.spark
        if spark is not None and (self._java is None or self._java.spark is not spark):
            self._java = _Java(spark)
        return self._java if spark is not None else None


class _Java:
    """Keeps references to Java classes and reads arrays as text: py4j makes a call for each part of
    a class name, and for each element of an array."""

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark._jvm.java
        process = session.jvm_process(spark)
        self.spark = spark
        self.pid: int | None = process.pid if process else None
        self._as_text = java.util.Arrays.toString
        factory = java.lang.management.ManagementFactory
        self._memory = factory.getMemoryMXBean()
        pools = list(factory.getMemoryPoolMXBeans())
        self._pools = [p for p in pools if _is_heap(p) and p.getCollectionUsage() is not None]

    def heap(self) -> dict[str, int]:
        """`heap_after_gc` is what was still in use after each pool's last garbage collection: when
        it nears `heap_max`, the heap is too small. `heap_used` includes garbage."""
        now = _usage(self._memory.getHeapMemoryUsage())
        found = {f"heap_{name}": now[name] for name in ("used", "committed", "max") if name in now}
        after = [_usage(pool.getCollectionUsage()) for pool in self._pools]
        if any(pool.get("committed") for pool in after):  # 0 before the first collection
            found["heap_after_gc"] = sum(pool.get("used", 0) for pool in after)
        return found

    def tasks_done(self, run_id: str) -> int:
        """A number that changes while tasks complete: then a batch is slow, not stuck."""
        tracker: Any = self.spark.sparkContext._jsc.statusTracker()
        jobs = sorted(self._numbers(tracker.getJobIdsForGroup(run_id)))[-JOBS_READ:]
        done = 0
        for job in jobs:
            info = tracker.getJobInfo(job)
            for number in self._numbers(info.stageIds()) if info else ():
                stage = tracker.getStageInfo(number)
                done += stage.numCompletedTasks() if stage else 0
        return (jobs[-1] if jobs else 0) * TASKS_MAX + done

    def _numbers(self, array: Any) -> list[int]:
        return list(json.loads(self._as_text(array)))


def _is_heap(pool: Any) -> bool:
    return str(pool.getType().name()) == "HEAP"


def _usage(usage: Any) -> dict[str, int]:
    """Its numbers by name, from its text: one call instead of four. A limit that is not set is
    left out."""
    found = re.findall(r"(\w+) = (-?\d+)", str(usage.toString()))
    return {name: int(number) for name, number in found if int(number) >= 0}
