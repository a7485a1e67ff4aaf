"""Moves a consumer group along with each query (`[lag] mirror`), for Kafka's own tools.

Has its own thread, so that a slow broker does not delay the measurement. Invariant: an error of a
broker is reported beside the lag; the lag itself stays known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.checkpoints.positions import Positions
from headrace.connectors.kafka.consumer_groups import ConsumerGroups
from headrace.errors import Error, SetupError
from headrace.model.lag import QueryLag
from headrace.project import broker_connectors
from headrace.project.workspace import Workspace
from headrace.relay import lag

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

ASK_S = 5.0
AGAIN_S = 3600.0  # a broker deletes an unused group after a few days


class GroupMirror:
    """Owns the connections and the last position of each group. The lag measurement calls
    `pass_on` and `with_group` from its own thread; what they exchange is replaced as a whole."""

    def __init__(self) -> None:
        self._found: tuple[QueryLag, ...] = ()
        self._clusters: dict[str, ConsumerGroups] = {}
        self._moved: dict[tuple[str, ...], tuple[float, Positions]] = {}
        self._results: dict[tuple[str, str], tuple[str, str | None]] = {}

    def pass_on(self, found: Iterable[QueryLag]) -> None:
        """The newest measurement: the next `tick` moves the groups there."""
        self._found = tuple(found)

    def tick(self, work: Workspace) -> list[str]:
        """Moves the groups. Returns the problems."""
        self._results = self._move_all(work) if work.settings.mirror is not None else {}
        return [problem for _, problem in self._results.values() if problem]

    def _move_all(self, work: Workspace) -> dict[tuple[str, str], tuple[str, str | None]]:
        results = {}
        seen = {(one.pipeline, one.query): one for one in self._found if not one.problem}
        down: set[str] = set()  # a cluster that does not answer is asked once a tick
        for definition, query in lag.queries(work):
            one = seen.get((definition.pipeline, query.name))
            if one is None:
                continue
            group = work.settings.mirror or ""
            names = {"pipeline": one.pipeline, "query": one.query, "profile": definition.profile}
            for name, value in names.items():
                group = group.replace(f"{{{name}}}", value)
            problem = self._move(group, broker_connectors.read_by(definition, query), one, down)
            results[one.pipeline, one.query] = (group, problem)
        return results

    def with_group(self, one: QueryLag) -> QueryLag:
        """Adds the result for its group in the last tick."""
        group, problem = self._results.get((one.pipeline, one.query), (None, None))
        return replace(one, group=group, group_problem=problem)

    def _move(
        self, group: str, connectors: Iterable[Kafka], one: QueryLag, down: set[str]
    ) -> str | None:
        left: Positions = {}
        for part in one.partitions:
            left.setdefault(part.topic, {})[part.partition] = part.next
        for connector in connectors:
            try:
                mine = {topic: left.pop(topic) for topic in list(left) if connector.covers(topic)}
                if mine and connector.servers in down:
                    return f"{connector.servers} does not answer."
                if mine:
                    self._move_on(connector, group, mine, one.at)
            except Error as exc:
                if isinstance(exc, SetupError):
                    down.add(connector.servers)
                return " ".join(text for text in (exc.what, exc.why, exc.fix) if text)
        return None

    def _move_on(self, connector: Kafka, group: str, mine: Positions, now: float) -> None:
        key = json.dumps(connector.client(), sort_keys=True)
        what = (key, group, *sorted(mine))  # a query may have two sources on one cluster
        before_at, before = self._moved.get(what, (0.0, {}))
        if before == mine and now - before_at < AGAIN_S:
            return
        if key not in self._clusters:
            self._clusters[key] = ConsumerGroups(connector, ASK_S)
        self._clusters[key].move(group, mine)
        self._moved[what] = (now, mine)
