"""The demo's topics in Kafka, and what can be read from them. Used by `headrace demo --kafka`.

Reads the broker and the checkpoints, never Spark. Invariant: the topic itself records the input, so
the generator may be killed at any moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.checkpoints import positions
from headrace.config import Settings
from headrace.connectors import kinds
from headrace.connectors.kafka.connector import kafka
from headrace.connectors.kafka.topic_follower import Record, TopicFollower
from headrace.demo import latency, outputs, read_progress
from headrace.demo.file_transport import FileTransport
from headrace.demo.input_reader import log_of
from headrace.demo.latency import Beat, Latency
from headrace.demo.loss_count import Outputs
from headrace.demo.paths import KAFKA, PIPELINE, DemoPaths
from headrace.errors import ConfigError, Error, SetupError
from headrace.model.state_paths import StatePaths
from headrace.state import alert_topic_status

FROM_INPUT = ("history", outputs.QUARANTINE)  # the others run in real time
READ_AT_ONCE = 5_000
ASK_S = 5.0
# Append times: latencies are measured by the broker's clock alone.
_CONFIG = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class DemoTopics:
    """The servers and the names of the topics."""

    servers: str
    logs: str
    beats: str
    alerts: str


def topics_of(settings: Settings) -> DemoTopics:
    """From headrace.toml, which the user may have edited."""
    try:
        logs, beats = settings.sources["raw_logs"], settings.sinks["heartbeats"]
        where = settings.place("sources", "raw_logs")
        made = kinds.build_connector(logs, name="raw_logs", where=where).as_kafka()
        if made is None or len(made.subscribe) != 1:
            raise KeyError("raw_logs")
        alerts = str(settings.alerts["topic"])
        return DemoTopics(made.servers, made.subscribe[0], str(beats["topic"]), alerts)
    except KeyError as exc:
        raise ConfigError(
            f"headrace.toml lacks a Kafka setting that the demo needs ({exc.args[0]}).",
            why="The demo writes log lines to the raw_logs topic and counts the records in its "
            "output topics.",
            where=settings.place("profiles", KAFKA),
            fix="Start a new demo in another folder: headrace demo --kafka --dir DIR",
            slug="demo-topics",
        ) from exc


def create(topics: DemoTopics) -> None:
    """Create missing topics with one partition each: the count reads partition 0."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": topics.servers})
    try:
        known = admin.list_topics(timeout=30).topics
        names = (topics.logs, topics.beats, topics.alerts)
        for name in names:
            if name in known and (count := len(known[name].partitions)) > 1:
                raise _not_countable(topics, name, count)
        missing = [NewTopic(name, 1, 1, config=_CONFIG) for name in names if name not in known]
        for done in (admin.create_topics(missing) if missing else {}).values():
            done.result(30)
    except KafkaException as exc:
        raise SetupError(
            f"The demo's topics could not be created on {topics.servers}.",
            why=str(exc.args[0]),
            fix="Check the broker's log, .headrace/kafka/broker.log. To start a broker: "
            "headrace kafka up",
            slug="demo-topics",
        ) from exc


def _not_countable(topics: DemoTopics, name: str, count: int) -> ConfigError:
    return ConfigError(
        f"The topic {name} has {count} partitions, but the demo needs topics with one partition.",
        why="The topic already existed; the demo did not create it.",
        where=topics.servers,
        fix="In headrace.toml, under [profiles.kafka], name topics that do not exist yet; the demo "
        "creates them.",
        slug="demo-topics",
    )


class KafkaTransport:
    """Owns one connection; the methods are described in `FileTransport`. While the broker does not
    answer, the view shows the last known numbers; `pending` does not use them."""

    at_least_once: Collection[str] = ("heartbeats",)

    def __init__(self, settings: Settings, demo: DemoPaths) -> None:
        self.topics = topics_of(settings)
        self._settings = settings
        self._demo = demo
        self._ends: dict[str, dict[int, int]] = {}

    @cached_property
    def _broker(self) -> TopicFollower:
        return TopicFollower(kafka(self.topics.servers, subscribe=[self.topics.logs]), ASK_S)

    def generator_args(self) -> list[str]:
        return ["--servers", self.topics.servers, "--topic", self.topics.logs]

    def close(self) -> None:
        if "_broker" in vars(self):  # it was used
            self._broker.close()

    def lines(self) -> Iterable[bytes]:
        return (record.value for record in self._read(self.topics.logs))

    def read_outputs(self) -> Outputs:
        records = self._read(self.topics.beats)
        beats = (record.value.decode("utf-8", "replace") for record in records)
        return outputs.read_all(self._settings, self._demo, beats)

    def pending(self) -> list[str]:
        try:
            ends = self._high(self.topics.logs)
        except Error as exc:
            return [exc.what]
        found = [self._unread(query, ends) for query in FROM_INPUT]
        found.append(read_progress.unread_history(self._settings, self._demo))
        return [words for words in found if words]

    def behind(self, rate: int) -> int:
        ends = self._refresh_ends(self.topics.logs)
        return max(self._count_unread(query, ends) for query in FROM_INPUT) // max(1, rate)

    def input_bytes(self) -> int:
        return 0  # the broker keeps the input

    def beats(self) -> tuple[int, int | None]:
        return sum(self._refresh_ends(self.topics.beats).values()), None

    def is_flowing(self, query: str) -> bool:
        """Both read the same input; an overload may come at any time."""
        return query in ("heartbeats", "overloaded") and self.beats()[0] > 0

    def latencies(self) -> Mapping[str, Latency]:
        appended: dict[int, list[float]] = {}
        went_in: dict[Beat, float] = {}
        for record in self._read(self.topics.logs):
            appended.setdefault(record.partition, []).append(record.at * 1000)
            if beat := _beat(record):
                went_in[beat] = record.at * 1000
        written = self._read(self.topics.beats)
        came_out = [(beat, record.at * 1000) for record in written if (beat := _beat(record))]
        alerts = outputs.alerts_of(StatePaths(self._settings.state))
        overloads = [
            (a.noticed_at or 0) * 1000 - went_in[key]
            for a in alerts
            if a.query == "overloaded" and (key := _beat_from_alert(a)) in went_in
        ]
        silent = [a for a in alerts if a.query == "silent"]
        silences = [(outputs.cluster_of(a), (a.noticed_at or 0) * 1000) for a in silent]
        samples = {
            "history": latency.measure_batches(appended, self._history_batches()),
            "heartbeats": latency.measure_beats(went_in, came_out),
            "overloaded": overloads,
            "silent": latency.measure_silences(came_out, silences),
        }
        measured = ((name, latency.from_samples(ms)) for name, ms in samples.items())
        return {name: found for name, found in measured if found is not None}

    def _read(self, topic: str) -> Iterator[Record]:
        """All records up to now. Read each time: the records of a long demo take much memory."""
        ends = {p: end for (_, p), end in self._broker.ends({topic: [0]}).items()}
        left = sum(end.records for end in ends.values())
        self._broker.follow(topic, {p: end.low for p, end in ends.items()})
        while left > 0:
            found = self._broker.next(ASK_S, READ_AT_ONCE)
            if not found:
                raise Error(
                    f"{left:,} records from {topic} did not arrive within {ASK_S:g} s.",
                    where=self.topics.servers,
                    fix="Check that the broker is running. To start it: headrace kafka up",
                    slug="kafka-unreachable",
                )
            yield from found
            left -= len(found)

    def _refresh_ends(self, topic: str) -> dict[int, int]:
        with contextlib.suppress(Error):  # the pipeline reports the problem
            self._ends[topic] = self._high(topic)
        return self._ends.get(topic, {})

    def _high(self, topic: str) -> dict[int, int]:
        found = self._broker.ends({topic: [0]})
        return {partition: end.high for (_, partition), end in found.items()}

    def _count_unread(self, query: str, ends: Mapping[int, int]) -> int:
        found = positions.read(self._settings.checkpoint(PIPELINE, query)) or {}
        read = found.get(self.topics.logs, {})
        return sum(max(0, end - read.get(partition, 0)) for partition, end in ends.items())

    def _unread(self, query: str, ends: Mapping[int, int]) -> str | None:
        left = self._count_unread(query, ends)
        return f"{query} has {left:,} record{'s' * (left != 1)} to read" if left else None

    def has_taken_alerts(self, since: float) -> bool:
        """Rows from files, and from the topic as of the relay's last look."""
        found = alert_topic_status.read(StatePaths(self._settings.state))
        is_taken = all((topic.until or 0.0) > since for topic in found)
        return is_taken and not read_progress.alert_rows(self._settings)

    def _history_batches(self) -> Iterator[tuple[dict[int, int], float]]:
        """(end offsets, commit time in ms)"""
        for read, when in positions.done(read_progress.checkpoint(self._settings, "history")):
            if self.topics.logs in read:
                yield read[self.topics.logs], when * 1000


Transport = FileTransport | KafkaTransport


def _beat(record: Record) -> Beat | None:
    log = log_of(record.value)
    return (log.cluster_id, log.at) if log and log.is_beat and log.cluster_id else None


def _beat_from_alert(alert: Any) -> Beat:
    return outputs.cluster_of(alert), round(alert.opened_at * 1000) * 1000
