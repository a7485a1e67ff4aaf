"""How long a notice takes: from a driver's end, and from a row in real time, to the pager.

The pager is a receiver on this machine; a moment is when its request has arrived. The supervisor,
its store, the relay and the channel are the real ones. Drivers without Spark are killed one after
the other, each with no restarts left. Rows come from a real-time query on Kafka; that takes from
the broker's append time of the record that opens the alert.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import kafka_latency, machine, supervisor, topic
from bench.kafka_latency import FIRST_CLUSTER, Given, flapping, opening
from bench.sides import kept_up
from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service
from headrace.model.requests import Action, Request
from headrace.model.state_paths import StatePaths
from headrace.state import requests
from headrace.store import db, pipeline_status

LENGTH_S = 120.0
EXITS, ROWS = "exits", "rows"
KILL_EVERY_S = 2.5  # two notices each; a channel sends 60 a minute
OPENED_A_SECOND = 0.4
WAIT_S = 60.0
PAGER = """
[notify.pager]
kind = "pagerduty"
routing_key = "${{file:{key}}}"
url = "{url}"
"""
NO_RESTARTS = "\n[restart]\nretries = 0\n"


@dataclass
class Pager:
    """PagerDuty on loopback: when each alert first came, in milliseconds, by its key."""

    url: str = ""
    at: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, received: Received) -> Reply:
        now = time.time() * 1000
        body = received.json()
        if body["event_action"] == "trigger":
            with self._lock:
                self.at.setdefault(body["dedup_key"], now)
        return reply_as_service(received)

    def channel(self, folder: Path) -> str:
        key = folder / "pager.key"
        key.write_text("0123456789abcdef0123456789abcdef")
        return PAGER.format(key=key, url=self.url)

    def forget(self, key: str) -> None:
        with self._lock:
            self.at.pop(key, None)


@contextmanager
def paging() -> Iterator[Pager]:
    pager = Pager()
    with Receiver(pager) as receiver:
        pager.url = receiver.url
        yield pager


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    found = []
    with topic.running(folder) as broker:
        for number in range(1, rounds + 1):
            machine.settle(kafka_latency.SETTLE_S)
            one: dict[str, Any] = {"round": number}
            one[EXITS] = _exits(folder / f"{number}-exits", seconds)
            one[ROWS] = _rows(Given(folder / f"{number}-rows", broker), seconds)
            shutil.rmtree(folder / f"{number}-rows")
            print(f"notices {number}/{rounds}: {one}", flush=True)
            found.append(one)
    return found


def _exits(folder: Path, seconds: float) -> dict[str, Any]:
    """Kills drivers in turn, and starts each again when it has been reported."""
    folder.mkdir()
    waits = []
    with paging() as pager:
        settings = pager.channel(folder) + NO_RESTARTS
        with supervisor.supervised(folder, 0.0, settings):
            places = StatePaths(folder / ".headrace")
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                due = time.monotonic() + KILL_EVERY_S
                number = len(waits) % supervisor.PIPELINES
                waits.append(_kill(places, pager, f"pipeline-{number:02d}"))
                time.sleep(max(0.0, due - time.monotonic()))
            _until(lambda: supervisor.running(places) == supervisor.PIPELINES, "all run again")
    return _told(waits)


def _kill(places: StatePaths, pager: Pager, pipeline: str) -> float:
    """Milliseconds until it is reported."""
    pid = _until(lambda: _pid(places, pipeline), f"a run of {pipeline}")
    known = set(pager.at)
    at = time.time() * 1000
    os.kill(pid, signal.SIGKILL)
    is_new = lambda: next((k for k in set(pager.at) - known if pipeline in k), None)  # noqa: E731
    key = _until(is_new, f"a notice about {pipeline}")
    took = pager.at[key] - at
    asked = Request(f"start-{pipeline}-{at:.0f}", Action.START, "bench", time.time(), pipeline)
    requests.leave(places, asked)
    pager.forget(key)
    return took


def _pid(places: StatePaths, pipeline: str) -> int | None:
    conn = db.open_readonly(places.history)
    try:
        found = pipeline_status.read(conn, pipeline)
    finally:
        conn.close()
    return found.pid if found is not None and found.state == "running" else None


def _until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WAIT_S:.0f} s: {what}")
        time.sleep(0.005)
    return answer


def _rows(given: Given, seconds: float) -> dict[str, Any]:
    given.topics.create(given.raw, given.out)
    with paging() as pager:
        home = given.project("alerting")
        toml = home / "headrace.toml"
        toml.write_text(toml.read_text() + pager.channel(home))
        with kept_up(home, "alerting", "history", is_drained=False) as running:
            values = flapping(OPENED_A_SECOND)
            window, _ = kafka_latency.fed(given, running, values, seconds)
            appended = {cluster: one.at * 1000 for one in given.topics.records(given.raw)
                        if (cluster := opening(one)) is not None}  # fmt: skip
            wanted = {c: at for c, at in appended.items() if window.holds(at)}
            _until(lambda: wanted.keys() <= _clusters(pager).keys(), "a notice about each cluster")
    came = _clusters(pager)
    return _told([came[cluster] - at for cluster, at in wanted.items()])


def _told(waits: list[float]) -> dict[str, Any]:
    ordered = sorted(waits)
    share = lambda part: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 2)  # noqa: E731
    return {"p50_ms": share(0.5), "p95_ms": share(0.95), "max_ms": round(ordered[-1], 2),
            "count": len(ordered)}  # fmt: skip


def _clusters(pager: Pager) -> dict[int, float]:
    """Those that were opened on purpose."""
    found = {key.rpartition("/")[2]: at for key, at in dict(pager.at).items()}
    return {int(c): at for c, at in found.items() if c.isdigit() and int(c) >= FIRST_CLUSTER}
