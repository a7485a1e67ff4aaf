"""Reads alert rows from the topics of `[alerts]`: a row is an open alert within milliseconds.

Every few seconds it looks up which topics the deployed pipelines use; each has its own thread
(`alert_topic_reader.py`). Its status is in `alerttopics.json`: the supervisor opens an alert when
rows are no longer read. Invariant: a topic that is no longer deployed is given up only when all
rows of earlier runs are read, or after a day.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace import config
from headrace.config import FILE
from headrace.connectors import alert_topic
from headrace.errors import Error
from headrace.model.alerts import TopicAlerts
from headrace.model.runs import pipeline_of
from headrace.model.state_paths import StatePaths
from headrace.project.workspace import Workspace
from headrace.relay.alert_topic_reader import AlertTopicReader
from headrace.state import alert_topic_status, definitions, desired, run_folders
from headrace.state.installation_id import home

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

AFTER_S = 60.0  # processes of a killed run may write a little longer
LEFT_S = 86_400.0  # how long an unused topic is read

Name = tuple[str, str, str]  # pipeline, query, and the topic with its broker
Start = Callable[["Kafka", StatePaths, str], AlertTopicReader]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A query whose alert rows come through a topic, or the problem with that topic."""

    pipeline: str
    query: str
    version: str
    profile: str
    topic: Kafka | None
    problem: str | None = None

    @property
    def key(self) -> str:
        return json.dumps(self.topic.fields(), sort_keys=True) if self.topic else ""

    @property
    def name(self) -> Name:
        return self.pipeline, self.query, self.key


class AlertTopics:
    """Owns a reader for each topic to which a deployed pipeline sends alert rows."""

    def __init__(self, start: Start = AlertTopicReader) -> None:
        self._start = start
        self._takers: dict[str, AlertTopicReader] = {}
        self._wanted: dict[Name, WantedTopic] | None = None
        self._before: dict[Name, TopicAlerts] = {}  # what an earlier relay knew
        self._written: list[TopicAlerts] | None = None

    def tick(self, work: Workspace) -> list[str]:
        """The current problems."""
        if self._wanted is None:
            self._remember(work)
        self._want(work)
        states = [self._state(one) for one in (self._wanted or {}).values()]
        problems = [
            f"alert rows are waiting in {one.topic}: {one.problem}" for one in states if one.problem
        ]
        if states != self._written:
            try:
                alert_topic_status.write(work.places, states)
                self._written = states
            except OSError as exc:
                problems.append(f"alerttopics.json could not be written: {exc.strerror or exc}")
        return problems

    def _remember(self, work: Workspace) -> None:
        """Entries of an earlier relay."""
        self._wanted = {}
        for line in alert_topic_status.read(work.places):
            for one in _wanted_topics(work, line.pipeline, line.version, line.profile):
                if one.query == line.query and (one.topic is None or one.topic.topic == line.topic):
                    self._wanted[one.name] = one
                    self._before[one.name] = line

    def _want(self, work: Workspace) -> None:
        """Deployed topics, and earlier ones that may still get or hold rows."""
        before, deployed = self._wanted or {}, {one.name: one for one in by_topic(work)}
        left = {
            name: one
            for name, one in before.items()
            if name not in deployed and self._is_needed(work.places, one)
        }
        for name in before.keys() - deployed.keys() - left.keys():
            self._before.pop(name, None)
        self._wanted = {**deployed, **left}
        topics = {one.key: one.topic for one in self._wanted.values() if one.topic is not None}
        for key in self._takers.keys() - topics.keys():
            self._takers.pop(key).end()
        for key in topics.keys() - self._takers.keys():
            self._takers[key] = self._start(topics[key], work.places, home(work.places))

    def _is_needed(self, places: StatePaths, one: WantedTopic) -> bool:
        """Whether to keep reading a topic that is no longer deployed."""
        ended_at = earlier_end(places, one.pipeline)
        is_taken = (self._state(one).until or 0.0) >= ended_at + AFTER_S
        if one.topic is None or not ended_at or is_taken:
            return False
        taker, now = self._takers.get(one.key), time.time()
        asked_since = taker.since if taker else now  # the relay may have been down
        if now < max(ended_at, asked_since) + LEFT_S:
            return True
        logger.error(
            "giving up on alert rows from query %s in topic %s", one.query, one.topic.topic
        )
        return False

    def _state(self, one: WantedTopic) -> TopicAlerts:
        """Continues earlier values, so that a relay that dies repeatedly is noticed."""
        topic = one.topic.topic or "" if one.topic else ""
        before = self._before.get(one.name)
        taker = self._takers.get(one.key)
        found = TopicAlerts(
            one.pipeline, one.query, topic, 0.0, None, one.problem, one.version, one.profile
        )
        if taker is not None:
            found = replace(
                found, since=taker.since, until=taker.until, problem=one.problem or taker.problem,
                lost=taker.lost, lost_at=taker.lost_at,
            )  # fmt: skip
        if before is not None:
            found = replace(
                found, since=min(found.since, before.since), until=found.until or before.until,
                lost=found.lost + before.lost, lost_at=found.lost_at or before.lost_at,
            )  # fmt: skip
        return found

    def close(self) -> None:
        for taker in self._takers.values():
            taker.end()
        self._takers.clear()


def by_topic(work: Workspace) -> Iterator[WantedTopic]:
    """Real-time queries with an alert as their sink, from the deployed settings, not from the
    current headrace.toml."""
    for item in desired.read_all(work.places):
        yield from _wanted_topics(work, item.pipeline, item.version, item.profile)


def _wanted_topics(
    work: Workspace, pipeline: str, version: str, profile: str
) -> Iterator[WantedTopic]:
    found = definitions.read(work.places, version, profile, pipeline)
    names = [
        query.name
        for query in (found.queries if found else ())
        if query.sink.get("kind") == "alert" and query.trigger.get("kind") == "real-time"
    ]
    if not names:
        return
    topic, problem = None, None
    try:
        toml = work.places.code(version) / FILE
        topic = alert_topic.topic_of(config.load(work.project, profile, toml))
    except Error as exc:
        problem = exc.what
    yield from (WantedTopic(pipeline, name, version, profile, topic, problem) for name in names)


def earlier_end(places: StatePaths, pipeline: str) -> float:
    """When the last run of an earlier deployment ended: infinity while one lives, 0 if there was
    none. A deployment is recorded before its predecessor has ended."""
    wanted = desired.read(places, pipeline)
    deployed = (wanted.version, wanted.profile) if wanted else None
    ends = [0.0]
    for run in run_folders.runs(places):
        spec = run_folders.spec_of(places, run) if pipeline_of(run) == pipeline else None
        if spec is not None and (spec.version, spec.profile) != deployed:
            ends.append(run_folders.ended_at(places, run))
    return max(ends)
