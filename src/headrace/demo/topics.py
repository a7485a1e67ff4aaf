"""The demo's logs in Kafka: its topics, and what can be read from them. Used by `headrace demo
--kafka`; everything is asked of the broker and of the checkpoints, nothing of Spark.

Invariant: the topic itself says what went in, so that a generator may be killed at any moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.checkpoints import positions
from headrace.config import Settings
from headrace.connectors import kinds
from headrace.connectors.kafka import Kafka, kafka
from headrace.connectors.kafkafollow import Following, Record
from headrace.demo import latency, outputs, reach
from headrace.demo.count import Found
from headrace.demo.latency import Beat, Latency
from headrace.demo.places import KAFKA, PIPELINE, DemoPlaces
from headrace.demo.truth import log_of
from headrace.errors import ConfigError, Error, SetupError
from headrace.model.places import Places
from headrace.state import alerttopics

FROM_INPUT = ("history", outputs.QUARANTINE)  # the others work in real time: their batch tells
READ_AT_ONCE = 5_000
ASK_S = 5.0
# Append times: a latency is measured by the broker's clock alone.
_CONFIG = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class Topics:
    """Names, and where they are."""

    servers: str
    logs: str
    beats: str
    alerts: str


def topics_of(settings: Settings) -> Topics:
    """As headrace.toml says; it is the user's file."""
    try:
        logs, beats = settings.sources["raw_logs"], settings.sinks["heartbeats"]
        made = kinds.made(logs, name="raw_logs", where=settings.place("sources", "raw_logs"))
        if not isinstance(made, Kafka) or len(made.subscribe) != 1:
            raise KeyError("raw_logs")
        alerts = str(settings.alerts["topic"])
        return Topics(made.servers, made.subscribe[0], str(beats["topic"]), alerts)
    except KeyError as exc:
        raise ConfigError(
            f"headrace.toml does not say where the demo's {exc.args[0]} is in Kafka.",
            why="The demo writes logs into the one topic of raw_logs, and counts the others.",
            where=settings.place("profiles", KAFKA),
            fix="begin anew in another folder: headrace demo --kafka --dir DIR",
            slug="demo-topics",
        ) from exc


def create(topics: Topics) -> None:
    """Those that are not there yet, of one partition each: what is counted is partition 0."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": topics.servers})
    try:
        known = admin.list_topics(timeout=30).topics
        names = (topics.logs, topics.beats, topics.alerts)
        for name in names:
            if name in known and (count := len(known[name].partitions)) > 1:
                raise _not_countable(topics, name, count)
        wish = [NewTopic(name, 1, 1, config=_CONFIG) for name in names if name not in known]
        for done in (admin.create_topics(wish) if wish else {}).values():
            done.result(30)
    except KafkaException as exc:
        raise SetupError(
            f"The demo's topics cannot be made on {topics.servers}.",
            why=str(exc.args[0]),
            fix="headrace kafka up starts a broker; look at its log, .headrace/kafka/broker.log",
            slug="demo-topics",
        ) from exc


def _not_countable(topics: Topics, name: str, count: int) -> ConfigError:
    return ConfigError(
        f"The topic {name} has {count} partitions, and the demo counts topics of one.",
        why="It is there already, so it was not made by the demo.",
        where=topics.servers,
        fix="name others in headrace.toml, under [profiles.kafka]: the demo makes them",
        slug="demo-topics",
    )


class OnTopics:
    """Owns one connection. While a broker does not answer, the view shows what was known last;
    whether all was read is not judged by that."""

    at_least_once: Collection[str] = ("heartbeats",)

    def __init__(self, settings: Settings, demo: DemoPlaces) -> None:
        self.topics = topics_of(settings)
        self._settings = settings
        self._demo = demo
        self._ends: dict[str, dict[int, int]] = {}

    @cached_property
    def _broker(self) -> Following:
        return Following(kafka(self.topics.servers, subscribe=[self.topics.logs]), ASK_S)

    def generator_args(self) -> list[str]:
        return ["--servers", self.topics.servers, "--topic", self.topics.logs]

    def close(self) -> None:
        if "_broker" in vars(self):  # somebody has asked
            self._broker.close()

    def lines(self) -> Iterable[bytes]:
        return (one.value for one in self._read(self.topics.logs))

    def found(self) -> Found:
        beats = (one.value.decode("utf-8", "replace") for one in self._read(self.topics.beats))
        return outputs.found(self._settings, self._demo, beats)

    def pending(self) -> list[str]:
        try:
            ends = self._high(self.topics.logs)
        except Error as exc:
            return [exc.what]
        found = [self._unread(query, self.topics.logs, ends) for query in FROM_INPUT]
        found.append(reach.unread_history(self._settings, self._demo))
        return [words for words in found if words]

    def behind(self, rate: int) -> int:
        ends = self._asked(self.topics.logs)
        left = [self._left(query, self.topics.logs, ends) for query in FROM_INPUT]
        return max(left, default=0) // max(1, rate)

    def kept_bytes(self) -> int:
        return 0  # they are the broker's

    def beats(self) -> tuple[int, int | None]:
        return sum(self._asked(self.topics.beats).values()), None

    def is_flowing(self, query: str) -> bool:
        """Both read the same input; an overload comes when it comes."""
        return query in ("heartbeats", "overloaded") and self.beats()[0] > 0

    def latencies(self) -> Mapping[str, Latency]:
        appended: dict[int, list[float]] = {}
        went_in: dict[Beat, float] = {}
        for one in self._read(self.topics.logs):
            appended.setdefault(one.partition, []).append(one.at * 1000)
            if beat := _beat(one):
                went_in[beat] = one.at * 1000
        came_out = [
            (beat, one.at * 1000) for one in self._read(self.topics.beats) if (beat := _beat(one))
        ]
        alerts = outputs.alerts_of(Places(self._settings.state))
        overloads = [
            (a.noticed_at or 0) * 1000 - went_in[key]
            for a in alerts
            if a.query == "overloaded" and (key := _opened_by(a)) in went_in
        ]
        silences = [
            (outputs.cluster_of(a), (a.noticed_at or 0) * 1000)
            for a in alerts
            if a.query == "silent"
        ]
        measured = {
            "history": latency.of(latency.of_batches(appended, self._batches("history"))),
            "heartbeats": latency.of(latency.of_beats(went_in, came_out)),
            "overloaded": latency.of(overloads),
            "silent": latency.of(latency.of_silences(came_out, silences)),
        }
        return {name: one for name, one in measured.items() if one is not None}

    def _read(self, topic: str) -> Iterator[Record]:
        """All that is there now; anew each time: a long demo does not fit into memory twice."""
        ends = {p: end for (_, p), end in self._broker.ends({topic: [0]}).items()}
        left = sum(end.records for end in ends.values())
        self._broker.follow(topic, {p: end.low for p, end in ends.items()})
        while left > 0:
            found = self._broker.next(ASK_S, READ_AT_ONCE)
            if not found:
                raise Error(
                    f"{left:,} records of {topic} did not come within {ASK_S:g} s.",
                    where=self.topics.servers,
                    fix="look whether the broker runs: headrace kafka up",
                    slug="kafka-unreachable",
                )
            yield from found
            left -= len(found)

    def _asked(self, topic: str) -> dict[int, int]:
        with contextlib.suppress(Error):  # the pipeline says what is wrong
            self._ends[topic] = self._high(topic)
        return self._ends.get(topic, {})

    def _high(self, topic: str) -> dict[int, int]:
        found = self._broker.ends({topic: [0]})
        return {partition: end.high for (_, partition), end in found.items()}

    def _left(self, query: str, topic: str, ends: Mapping[int, int]) -> int:
        read = (positions.of(self._settings.checkpoint(PIPELINE, query)) or {}).get(topic, {})
        return sum(max(0, end - read.get(partition, 0)) for partition, end in ends.items())

    def _unread(self, query: str, topic: str, ends: Mapping[int, int]) -> str | None:
        left = self._left(query, topic, ends)
        return f"{query} has {left:,} record{'s' * (left != 1)} to read" if left else None

    def has_taken_alerts(self, since: float) -> bool:
        """Those of files, and by the relay's last look those of the topic."""
        found = alerttopics.read(Places(self._settings.state))
        is_taken = all((one.until or 0.0) > since for one in found)
        return is_taken and not reach.alert_rows(self._settings)

    def _batches(self, query: str) -> Iterator[tuple[dict[int, int], float]]:
        """(up to where, when it was done in ms)"""
        folder = Path(self._settings.checkpoint(PIPELINE, query))
        for read, when in positions.done(folder):
            if self.topics.logs in read:
                yield read[self.topics.logs], when * 1000


def _beat(one: Record) -> Beat | None:
    log = log_of(one.value)
    return (log.cluster_id, log.at) if log and log.is_beat and log.cluster_id else None


def _opened_by(alert: Any) -> Beat:
    return outputs.cluster_of(alert), round(alert.opened_at * 1000) * 1000
