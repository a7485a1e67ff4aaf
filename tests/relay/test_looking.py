"""How long a look at lag may take. A broker of which every answer is known stands for a real one:
what it costs to wait is counted on a clock that nobody waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from brokers.deployed import committed, workspace
from headrace.connectors.kafka.broker_client import TopicEnds
from headrace.connectors.kafka.connector import Kafka
from headrace.model.lag import QueryLag
from headrace.relay import lag
from headrace.relay.lag import AGED_S, LagMonitor

WRITTEN_AT = 1.0


class Marked:
    """A broker with one topic; in `empty` partitions only markers of transactions lie ahead."""

    empty: tuple[int, ...] = ()
    high = 9

    def __init__(self, connector: Kafka, within_s: float) -> None:
        self.servers = connector.servers
        self.now = 0.0
        self.asked: list[int] = []

    def topics(self) -> dict[str, list[int]]:
        return {"t": list(range(8))}

    def ends(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], TopicEnds]:
        return {(t, p): TopicEnds(0, self.high) for t, found in partitions.items() for p in found}

    def timestamp_at(
        self, topic: str, partition: int, offset: int, within_s: float
    ) -> float | None:
        self.asked.append(partition)
        self.now += within_s if partition in self.empty else 0.01
        return None if partition in self.empty else WRITTEN_AT

    def retention_s(self, topic: str) -> float | None:
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Marked:
    found = Marked(Kafka("b:1", subscribe=("t",)), 1.0)
    monkeypatch.setattr(lag, "BrokerClient", lambda *_: found)
    return found


def waiting(found: list[QueryLag]) -> list[int]:
    """Partitions of which is known since when a record waits."""
    return [one.partition for one in found[0].partitions if one.waits_s is not None]


def test_partitions_with_only_markers_ahead_cost_one_look_its_two_seconds(
    tmp_path: Path, broker: Marked
) -> None:
    work = workspace(tmp_path, {"servers": "b:1", "subscribe": "t"})
    committed(tmp_path, 0, {"t": {str(n): 1 for n in range(8)}})
    broker.empty = (2, 5)
    relay = LagMonitor(lambda: broker.now)

    first = waiting(relay.measure(work))
    spent_s = broker.now
    second, third = waiting(relay.measure(work)), waiting(relay.measure(work))

    assert spent_s == pytest.approx(AGED_S)
    assert first == [0, 1]
    assert second == [0, 1, 3, 4], "the place without a record is let be, others have its time"
    assert third == [0, 1, 3, 4, 6, 7]


def test_a_place_without_a_record_is_asked_again_when_something_came(
    tmp_path: Path, broker: Marked
) -> None:
    work = workspace(tmp_path, {"servers": "b:1", "subscribe": "t"})
    committed(tmp_path, 0, {"t": {"0": 1}})
    broker.empty = (0,)
    relay = LagMonitor(lambda: broker.now)

    relay.measure(work)
    relay.measure(work)
    before = list(broker.asked)
    broker.empty, broker.high = (), 10
    after = waiting(relay.measure(work))

    assert (before, after) == ([0], [0])
