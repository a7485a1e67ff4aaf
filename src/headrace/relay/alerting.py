"""Takes alert rows out of the topics of `[alerts]`: a row is an open alert within milliseconds.

`Alerting` looks every few seconds which topics the deployed pipelines use; each has a thread of its
own, from its first look to the end (`taking.py`). How that is stands in `alerttopics.json`: the
supervisor opens an alert when nobody takes rows any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from headrace import config
from headrace.config import FILE
from headrace.connectors import alerttopic
from headrace.connectors.kafka import Kafka
from headrace.errors import Error
from headrace.model.alerts import ByTopic
from headrace.project import definitions
from headrace.project.workspace import Workspace
from headrace.relay.taking import Taker
from headrace.state import alerttopics, desired
from headrace.state.homes import home

Name = tuple[str, str]  # pipeline, query


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query whose alert rows come by a topic, or what is wrong with that topic."""

    pipeline: str
    query: str
    topic: Kafka | None
    problem: str | None = None

    @property
    def key(self) -> str:
        return json.dumps(self.topic.fields(), sort_keys=True) if self.topic else ""


class Alerting:
    """Owns a taker for each topic that some deployed pipeline sends alert rows to."""

    def __init__(self) -> None:
        self._takers: dict[str, Taker] = {}
        self._before: dict[Name, ByTopic] | None = None  # what an earlier relay knew
        self._written: list[ByTopic] | None = None

    def tick(self, work: Workspace) -> list[str]:
        """What is wrong, in words."""
        if self._before is None:
            self._before = alerttopics.read(work.places)
        wanted = list(by_topic(work))
        topics = {one.key: one.topic for one in wanted if one.topic is not None}
        for key in self._takers.keys() - topics.keys():
            self._takers.pop(key).end()
        for key in topics.keys() - self._takers.keys():
            self._takers[key] = Taker(topics[key], work.places, home(work.places))
        states = [self._state(one) for one in wanted]
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

    def _state(self, one: Wanted) -> ByTopic:
        """What was known before counts on, so that a relay that dies again and again is found."""
        name = one.topic.topic or "" if one.topic else ""
        before = (self._before or {}).get((one.pipeline, one.query))
        taker = self._takers.get(one.key)
        since = taker.since if taker else 0.0
        until = taker.until if taker else None
        if before is not None and before.topic == name:
            since, until = min(since, before.since), until or before.until
        problem = one.problem or (taker.problem if taker else None)
        return ByTopic(one.pipeline, one.query, name, since, until, problem)

    def close(self) -> None:
        for taker in self._takers.values():
            taker.end()
        self._takers.clear()


def by_topic(work: Workspace) -> Iterator[Wanted]:
    """Real-time queries with an alert as their sink, by what was deployed and not by what stands
    in headrace.toml now."""
    for item in desired.listed(work.places):
        found = definitions.stored(work, item.version, item.profile, item.pipeline)
        names = [
            query.name
            for query in (found.queries if found else ())
            if query.sink.get("kind") == "alert" and query.trigger.get("kind") == "real-time"
        ]
        if not names:
            continue
        topic, problem = None, None
        try:
            toml = work.places.code(item.version) / FILE
            topic = alerttopic.topic_of(config.load(work.project, item.profile, toml))
        except Error as exc:
            problem = exc.what
        yield from (Wanted(item.pipeline, name, topic, problem) for name in names)
