"""Takes alert rows out of the topics of `[alerts]`: a row is an open alert within milliseconds.

`Alerting` looks every few seconds which topics the deployed pipelines use; each has a thread of its
own, from its first look to the end (`taking.py`). How that is stands in `alerttopics.json`: the
supervisor opens an alert when nobody takes rows any more.
Invariant: a topic that is deployed no more is left only when all rows of earlier runs are taken, or
after a day.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from headrace import config
from headrace.config import FILE
from headrace.connectors import alerttopic
from headrace.connectors.kafka import Kafka
from headrace.errors import Error
from headrace.model.alerts import ByTopic
from headrace.model.places import Places
from headrace.model.runs import pipeline_of
from headrace.project import definitions
from headrace.project.workspace import Workspace
from headrace.relay.taking import Taker
from headrace.state import alerttopics, desired, folders
from headrace.state.homes import home

AFTER_S = 60.0  # what is left of a run that was killed may write a little longer
LEFT_S = 86_400.0  # so long a topic is asked that nobody writes to any more: its broker may be gone

Name = tuple[str, str, str]  # pipeline, query, and the topic with its broker
Start = Callable[[Kafka, Places, str], Taker]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query whose alert rows come by a topic, or what is wrong with that topic."""

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


class Alerting:
    """Owns a taker for each topic that some deployed pipeline sends alert rows to."""

    def __init__(self, start: Start = Taker) -> None:
        self._start = start
        self._takers: dict[str, Taker] = {}
        self._wanted: dict[Name, Wanted] | None = None
        self._before: dict[Name, ByTopic] = {}  # what an earlier relay knew
        self._written: list[ByTopic] | None = None

    def tick(self, work: Workspace) -> list[str]:
        """What is wrong, in words."""
        if self._wanted is None:
            self._remember(work)
        self._want(work)
        states = [self._state(one) for one in (self._wanted or {}).values()]
        problems = [
            f"alert rows wait in {one.topic}: {one.problem}" for one in states if one.problem
        ]
        if states != self._written:
            try:
                alerttopics.write(work.places, states)
                self._written = states
            except OSError as exc:
                problems.append(f"alerttopics.json cannot be written: {exc.strerror or exc}")
        return problems

    def _remember(self, work: Workspace) -> None:
        """Of an earlier relay; also of one that has ended before a run did."""
        self._wanted = {}
        for line in alerttopics.read(work.places):
            for one in _of_version(work, line.pipeline, line.version, line.profile):
                if one.query == line.query and (one.topic is None or one.topic.topic == line.topic):
                    self._wanted[one.name] = one
                    self._before[one.name] = line

    def _want(self, work: Workspace) -> None:
        """What is deployed, and what was while rows of it may come or wait."""
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

    def _is_needed(self, places: Places, one: Wanted) -> bool:
        """Of a topic that is deployed no more."""
        ended_at = earlier_end(places, one.pipeline)
        is_taken = (self._state(one).until or 0.0) >= ended_at + AFTER_S
        if one.topic is None or not ended_at or is_taken:
            return False
        taker, now = self._takers.get(one.key), time.time()
        asked_since = taker.since if taker else now  # we may have been away for longer than a day
        if now < max(ended_at, asked_since) + LEFT_S:
            return True
        logger.error("alert rows of %s in %s are given up", one.query, one.topic.topic)
        return False

    def _state(self, one: Wanted) -> ByTopic:
        """What was known before counts on, so that a relay that dies again and again is found."""
        topic = one.topic.topic or "" if one.topic else ""
        before = self._before.get(one.name)
        taker = self._takers.get(one.key)
        found = ByTopic(
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


def by_topic(work: Workspace) -> Iterator[Wanted]:
    """Real-time queries with an alert as their sink, by what was deployed and not by what stands
    in headrace.toml now."""
    for item in desired.listed(work.places):
        yield from _of_version(work, item.pipeline, item.version, item.profile)


def _of_version(work: Workspace, pipeline: str, version: str, profile: str) -> Iterator[Wanted]:
    found = definitions.stored(work, version, profile, pipeline)
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
        topic = alerttopic.topic_of(config.load(work.project, profile, toml))
    except Error as exc:
        problem = exc.what
    yield from (Wanted(pipeline, name, version, profile, topic, problem) for name in names)


def earlier_end(places: Places, pipeline: str) -> float:
    """When the last run of what is deployed no more has ended: infinity while one goes on, 0 if
    there is none. A deployment is written down before its forerunner has come to its end."""
    wanted = desired.read(places, pipeline)
    deployed = (wanted.version, wanted.profile) if wanted else None
    ends = [0.0]
    for run in folders.runs(places):
        spec = folders.spec_of(places, run) if pipeline_of(run) == pipeline else None
        if spec is not None and (spec.version, spec.profile) != deployed:
            ends.append(folders.ended_at(places, run))
    return max(ends)
