"""A real broker for the benchmarks, and topics that are filled before anything starts.

The broker is nobody's child that is measured: a tree is counted below its root. Append times are
the broker's own, so that a latency is told by one clock. Read by the three Kafka benchmarks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli import kafka as dev_broker
from headrace.connectors.kafka.connector import kafka
from headrace.connectors.kafka.topic_follower import Record, TopicFollower
from headrace.demo import folder as demo_folder
from headrace.demo import log_lines
from headrace.model.state_paths import StatePaths

CONFIG = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
BEGINNING = 1_772_406_000.0  # 2026-03-01 23:00 UTC: a longer input has two days
RATE = 500  # lines a second of event time, as the demo has it: so many of them are heartbeats
SEED = 7
ASK_S = 30.0
READ_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Topics:
    """A broker that runs, and what can be asked of it."""

    servers: str
    port: int

    def create(self, *names: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        wish = [NewTopic(name, 1, 1, config=CONFIG) for name in names]
        for done in admin.create_topics(wish).values():
            done.result(ASK_S)

    def fill(self, name: str, values: Iterable[bytes]) -> int:
        """Into one partition, in order. -> how many"""
        producer = self.producer(**{"linger.ms": 50, "batch.num.messages": 50_000})
        count = 0
        for count, value in enumerate(values, 1):  # noqa: B007 - the last one is the answer
            while True:
                try:
                    producer.produce(name, value)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(ASK_S * 4):
            raise TimeoutError(f"{name} could not be filled")
        if self.end(name) != count:
            raise AssertionError(f"{name} holds {self.end(name)} records, not {count}")
        return count

    def producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.servers, "acks": "1", **settings})

    def end(self, name: str) -> int:
        with self._asking(name) as asked:
            return asked.ends({name: [0]})[name, 0].high

    def records(self, name: str) -> Iterator[Record]:
        """All that is there now."""
        with self._asking(name) as asked:
            end = asked.ends({name: [0]})[name, 0]
            asked.follow(name, {0: end.low})
            left = end.records
            while left > 0:
                found = asked.next(ASK_S, READ_AT_ONCE)
                if not found:
                    raise TimeoutError(f"{left} records of {name} did not come")
                yield from found
                left -= len(found)

    def _asking(self, name: str) -> TopicFollower:
        return TopicFollower(kafka(self.servers, subscribe=[name]), ASK_S)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Topics]:
    """Ended with the benchmark, whatever happens; its data goes with the folder."""
    places = StatePaths(folder / "broker")
    found = dev_broker.start_broker(places, dev_broker.free_port(0))
    try:
        yield Topics(found.servers, found.port)
    finally:
        dev_broker.stop_broker(places)


def logs(count: int) -> Iterator[bytes]:
    """Lines as the demo's generator writes them, damaged ones included; always the same."""
    tick = given = 0
    while given < count:
        for line in log_lines.second(tick, BEGINNING + tick, RATE, SEED).lines[: count - given]:
            given += 1
            yield line
        tick += 1


def project(folder: Path, port: int, changes: Mapping[str, str]) -> Path:
    """The demo's own project on this broker; each change has to find its text in its settings."""
    places, _, _ = demo_folder.prepare(folder, "kafka", port)
    file = places.folder / "headrace.toml"
    text = file.read_text()
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"the demo's headrace.toml has no {old!r}")
        text = text.replace(old, new)
    file.write_text(text)
    return places.folder


def await_all(pending: Callable[[], list[str]], alive: Callable[[], None], within_s: float) -> None:
    """Until nothing is pending."""
    deadline = time.monotonic() + within_s
    while left := pending():
        alive()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done within {within_s:.0f} s: {left}")
        time.sleep(0.1)
