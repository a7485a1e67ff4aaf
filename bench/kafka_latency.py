"""How long a record takes: heartbeats from topic to topic, and a row to its open alert.

Heartbeats in real time under Headrace against the same query as Spark runs it by default. Both are
given 1,000 records a second; moments are the broker's append times. Then alerts: from the append
time of the row that opens one to `noticed_at` in the store, while the history is written beside it.
Left out is all that came before the side had worked for some seconds.
"""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine, topic
from bench.sides import LOGS, Running, bare, kept_up, runs_of
from headrace.checkpoints import committed_files
from headrace.connectors import jars
from headrace.connectors.kafka.topic_follower import Record
from headrace.demo import latency, log_lines
from headrace.demo.folder import files as demo_files
from headrace.model.state_paths import StatePaths
from headrace.store import alerts, db

RATE = 1_000
STEP_S = 0.005  # between two handfuls of records
LENGTH_S = 120.0  # of the real-time side: a whole batch, so that one border is in it
SHORTER = 0.5  # the other sides' share of that: each of their batches is a border
WARM_S = 60.0  # Java compiles what is run often
START_S = 240.0
REST_S = 180.0  # a real-time batch and more
SETTLE_S = 3.0
OPENED_A_SECOND = 5
FIRST_CLUSTER = 1_000  # of those that open an alert; each opens one
CLEARED_AFTER = 3  # when so many others have been opened
REAL_TIME, MICRO_BATCH, ALERTS = "real_time", "micro_batch", "alerts"

SETTINGS = """\
[project]
name = "bench"

[sources.raw_logs]
kind = "kafka"
servers = "{servers}"
subscribe = "{raw}"
starting = "earliest"

[sources.customers]
kind = "csv"
path = "customers.csv"
schema = "customer_id int, customer string, plan string"
options = {{ header = true }}
table = true

[sinks.heartbeats]
kind = "kafka"
servers = "{servers}"
topic = "{out}"

[alerts]
servers = "{servers}"
topic = "{out}"
"""


@dataclass
class Feed:
    """Writes records at the rate, from the first call to the last. Owns a producer."""

    topics: topic.Topics
    name: str
    values: Iterator[bytes]
    sent: int = 0
    _begin: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._producer = self.topics.producer(**{"linger.ms": 0})

    def until(self, is_enough: Callable[[], bool], alive: Callable[[], None]) -> None:
        look_at = 0.0
        while True:
            now = time.monotonic()
            while self.sent < (now - self._begin) * RATE:
                self._producer.produce(self.name, next(self.values))
                self.sent += 1
            self._producer.poll(0)
            if now >= look_at:
                alive()
                if is_enough():
                    return
                look_at = time.monotonic() + 1.0
            time.sleep(STEP_S)

    def for_s(self, seconds: float, alive: Callable[[], None]) -> None:
        deadline = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= deadline, alive)

    def close(self) -> None:
        if self._producer.flush(topic.ASK_S):
            raise TimeoutError(f"{self.name} did not take all records")


@dataclass(frozen=True, slots=True)
class Window:
    """What is measured: moments of the wall clock, in milliseconds."""

    begin: float
    end: float

    def holds(self, at_ms: float) -> bool:
        return self.begin <= at_ms < self.end


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    found = []
    with topic.running(folder) as broker:
        for number in range(1, rounds + 1):
            order = (REAL_TIME, MICRO_BATCH, ALERTS)
            one: dict[str, Any] = {"round": number}
            for side in order if number % 2 else order[::-1]:
                machine.settle(SETTLE_S)
                given = Given(folder / f"{number}-{side}", broker)
                broker.create(given.raw, given.out)
                one[side] = SIDES[side](given, seconds if side == REAL_TIME else seconds * SHORTER)
                shutil.rmtree(given.folder)
            print(f"kafka-latency {number}/{rounds}: {one}", flush=True)
            found.append(one)
    return found


@dataclass(frozen=True, slots=True)
class Given:
    folder: Path
    topics: topic.Topics

    @property
    def raw(self) -> str:
        return f"raw-{self.folder.name}"

    @property
    def out(self) -> str:
        return f"out-{self.folder.name}"

    def project(self, pipeline: str) -> Path:
        shutil.copytree(LOGS, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        for other in (self.folder / "pipelines").glob("*.py"):
            if other.stem != pipeline:
                other.unlink()
        text = SETTINGS.format(servers=self.topics.servers, raw=self.raw, out=self.out)
        (self.folder / "headrace.toml").write_text(text)
        (self.folder / "customers.csv").write_text(demo_files()["customers.csv"])
        return self.folder


def _real_time(given: Given, seconds: float) -> dict[str, Any]:
    home = given.project("beating")
    with kept_up(home, "beating", "heartbeats", is_drained=False) as running:
        window, feed = fed(given, running, beats(), seconds)
        measured = _beats(given, running, window, feed)
        _until_border(running, window)
        borders = borders_in(running, window)
    _require_one_run(home, "beating")
    if seconds >= LENGTH_S and not borders:
        raise AssertionError(f"no border between two batches within {seconds:g} s")
    return {**measured, "borders": borders}


def _micro_batch(given: Given, seconds: float) -> dict[str, Any]:
    customers = given.folder.with_suffix(".csv")
    customers.write_text(demo_files()["customers.csv"])
    places = [given.topics.servers, given.raw, str(customers), given.out]
    arguments = [*places, str(given.folder / "checkpoint")]
    settings = jars.settings({"kafka"}, {})
    with bare(given.folder, "heartbeats.py", arguments, settings, LOGS) as running:
        window, feed = fed(given, running, beats(), seconds)
        measured = _beats(given, running, window, feed)
        return {**measured, "batches": borders_in(running, window)}


def _alerts(given: Given, seconds: float) -> dict[str, Any]:
    home = given.project("alerting")
    with kept_up(home, "alerting", "history") as running:
        window, feed = fed(given, running, flapping(), seconds)
        appended = {beat: at for one in given.topics.records(given.raw)
                    if (beat := opening(one)) is not None and (at := one.at * 1000)}  # fmt: skip
        done = lambda: [] if len(_noticed(home)) >= len(appended) else ["alerts"]  # noqa: E731
        topic.await_all(done, running.require_alive, REST_S)
        batches = borders_in(running, window)
    _require_one_run(home, "alerting")
    noticed = _noticed(home)
    if noticed.keys() != appended.keys():
        raise AssertionError(f"{len(noticed)} alerts of {len(appended)} were opened")
    if not batches or not committed_files.files(home / "data" / "history"):
        raise AssertionError("no history was written while alerts were measured")
    waits = [noticed[c] - at for c, at in appended.items() if window.holds(at)]
    return {**told(waits), "sent": feed.sent, "history_batches": batches}


SIDES = {REAL_TIME: _real_time, MICRO_BATCH: _micro_batch, ALERTS: _alerts}


def fed(
    given: Given, running: Running, values: Iterator[bytes], seconds: float
) -> tuple[Window, Feed]:
    """Feeds until something has come out, for the time of warming up, and for that of measuring."""
    begun = time.monotonic()

    def has_come() -> bool:
        if time.monotonic() > begun + START_S:
            raise TimeoutError(f"nothing came out within {START_S:.0f} s:\n{running.logs()}")
        return given.topics.end(given.out) > 0

    with closing(Feed(given.topics, given.raw, values)) as feed:
        feed.until(has_come, running.require_alive)
        feed.for_s(WARM_S, running.require_alive)
        begin = time.time() * 1000
        feed.for_s(seconds, running.require_alive)
        window = Window(begin, begin + seconds * 1000)
    return window, feed


def _beats(given: Given, running: Running, window: Window, feed: Feed) -> dict[str, Any]:
    """Every heartbeat has come out once, and right; told is how long those of the window took."""
    rest = lambda: [] if given.topics.end(given.out) >= feed.sent else ["records"]  # noqa: E731
    topic.await_all(rest, running.require_alive, REST_S)
    went_in = {_cluster(one): one.at * 1000 for one in given.topics.records(given.raw)}
    came_out = {}
    for one in given.topics.records(given.out):
        body = json.loads(one.value)
        came_out[body["cluster_id"]] = one.at * 1000
        if not body["customer"]:
            raise AssertionError(f"a heartbeat of nobody: {body}")
    if went_in.keys() != came_out.keys() or given.topics.end(given.out) != feed.sent:
        raise AssertionError(f"{len(came_out)} heartbeats came out, {len(went_in)} went in")
    waits = [came_out[c] - at for c, at in went_in.items() if window.holds(at)]
    return {**told(waits), "sent": feed.sent}


def told(waits: list[float]) -> dict[str, Any]:
    found = latency.from_samples(waits)
    if found is None:
        raise AssertionError("nothing was measured")
    return {"p50_ms": round(found.p50_ms, 2), "p99_ms": round(found.p99_ms, 2),
            "max_ms": round(max(waits), 2), "count": found.count}  # fmt: skip


def borders_in(running: Running, window: Window) -> int:
    """Batches that were done within the window."""
    commits = [p for p in (running.checkpoint / "commits").glob("[0-9]*") if p.name.isdigit()]
    return sum(window.holds(path.stat().st_mtime * 1000) for path in commits)


def _until_border(running: Running, window: Window) -> None:
    """A commit is written a moment after its batch; the next one is not waited for."""
    deadline = time.monotonic() + 5.0
    while not borders_in(running, window) and time.monotonic() < deadline:
        time.sleep(0.1)


def _require_one_run(home: Path, pipeline: str) -> None:
    if len(runs := runs_of(home, pipeline)) != 1:
        raise AssertionError(f"it was restarted while it was measured: {runs}")


def beats() -> Iterator[bytes]:
    """Heartbeats, each of a cluster of its own: so each is known again when it comes out."""
    for number in itertools.count(1):
        yield _beat(number, 50.0)


def flapping(opened_a_second: float = OPENED_A_SECOND) -> Iterator[bytes]:
    """The demo's logs; among them clusters with too much to do, and a little later with less."""
    every = int(RATE / opened_a_second)
    ordinary = itertools.chain.from_iterable(
        log_lines.second(tick, time.time(), RATE, topic.SEED).lines for tick in itertools.count()
    )
    for number in itertools.count():
        step, cluster = number % every, FIRST_CLUSTER + number // every
        if step == 0:
            yield _beat(cluster, 99.5)
        elif step == every // 2 and cluster - CLEARED_AFTER >= FIRST_CLUSTER:
            yield _beat(cluster - CLEARED_AFTER, 50.0)
        else:
            yield next(ordinary)


def _beat(cluster: int, load: float) -> bytes:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body: Mapping[str, Any] = {
        "timestamp": now, "customer_id": cluster % log_lines.CUSTOMERS + 1, "metric": "load",
        "event_type": "clusterHeartbeat", "level": "INFO", "cluster_id": cluster, "load": load,
    }  # fmt: skip
    return json.dumps(body, separators=(",", ":")).encode()


def _cluster(one: Record) -> int:
    return int(json.loads(one.value)["cluster_id"])


def opening(one: Record) -> int | None:
    """The cluster whose alert this record opens; the demo's own overloads are not ours."""
    if b"clusterHeartbeat" not in one.value:
        return None
    body = json.loads(one.value)
    is_ours = body["cluster_id"] >= FIRST_CLUSTER and body["load"] > 99
    return int(body["cluster_id"]) if is_ours else None


def _noticed(home: Path) -> dict[int, float]:
    """Cluster -> when its alert was in the store, in milliseconds."""
    with closing(db.open_readonly(StatePaths(home / ".headrace").alerts)) as conn:
        found = alerts.list_alerts(conn, "all", alerts.LIMIT_MAX, query="overloaded")
    return {
        int(one.data["cluster_id"]): (one.noticed_at or 0.0) * 1000
        for one in found
        if one.data["cluster_id"] >= FIRST_CLUSTER
    }
