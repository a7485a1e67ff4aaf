"""Records of a batch, asked of the brokers: when they were written, for `fresh`, and a few of them
for `counts`.

Called for every batch, on Spark's bus. Invariant: waits for `WITHIN_S`, and for as long again only
while leaders move. `of` never raises, and takes at most one part in `REST` of a query's time:
between, nothing is known.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.checkpoints import positions
from headrace.checkpoints.positions import Positions
from headrace.connectors.connector import Connector
from headrace.connectors.event_hubs import EventHubs
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import shared_by
from headrace.connectors.kafkatimes import Times
from headrace.driver.fresh import Stretch
from headrace.errors import Error

WITHIN_S = 1.0
REST = 5  # an answer that took 10 ms is not asked for again within 50
PARTITIONS_MAX = 8  # of a source: those with most records in the batch

logger = logging.getLogger(__name__)


class Written:
    """Owns the clients, one a login and isolation. They end with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read: dict[str, list[tuple[Kafka, Times]]] = {}
        self._clients: dict[str, Times] = {}
        self._rests_until: dict[str, float] = {}

    def note(self, query: str, sources: Iterable[Connector | None]) -> None:
        """What a query reads. Without a client of our own nothing is known, and nothing breaks."""
        try:
            found = [one.as_kafka(is_source=True) if isinstance(one, EventHubs) else one
                     for one in sources]  # fmt: skip
            self._read[query] = [(k, self._client(k)) for k in found if isinstance(k, Kafka)]
        except Error as exc:
            logger.info("how old the records of %s are will not be known: %s", query, exc.what)

    def of(
        self, query: str, progress: Mapping[str, Any], checkpoint: Path | None
    ) -> dict[int, list[Stretch]]:
        """By the number of a source, as the progress counts them."""
        now = self._clock()
        if query not in self._read or now < self._rests_until.get(query, 0.0):
            return {}
        try:
            return {
                number: list(self._asked(self._read[query], places, now + WITHIN_S))
                for number, places in enumerate(_places(progress, checkpoint))
                if places
            }
        except Exception as exc:  # a border: on Spark's bus nothing may be raised
            logger.info("the age of a batch of %s is not known: %s", query, exc)
            return {}
        finally:
            self._rests_until[query] = now + (self._clock() - now) * REST

    def values(
        self, kafka: Kafka, progress: Mapping[str, Any], checkpoint: Path | None, most: int
    ) -> list[bytes | None]:
        """Of some records of a batch, side by side in one partition of what `kafka` reads."""
        places = [
            place
            for of_source in _places(progress, checkpoint)
            for place in of_source
            if kafka.covers(place[0])
        ]
        if not places:
            return []
        topic, partition, first, after = random.choice(places)  # noqa: S311 (a sample, no secret)
        begin = random.randint(first, max(first, after - most))  # noqa: S311
        return self._client(kafka).values(topic, partition, begin, after, WITHIN_S, most)

    def _asked(
        self, read: list[tuple[Kafka, Times]], places: list[tuple[str, int, int, int]], until: float
    ) -> Iterator[Stretch]:
        for topic, partition, first, after in places[:PARTITIONS_MAX]:
            times = next((times for kafka, times in read if kafka.covers(topic)), None)
            left_s = until - self._clock()
            if times is None or left_s <= 0:
                return
            if found := times.between(topic, partition, first, after, left_s):
                begin, end = sorted(at * 1000 for at in found)
                yield begin, end, after - first

    def _client(self, connector: Kafka) -> Times:
        key = shared_by(connector)
        if key not in self._clients:
            self._clients[key] = Times(connector, WITHIN_S)
        return self._clients[key]


def _places(
    progress: Mapping[str, Any], checkpoint: Path | None
) -> Iterator[list[tuple[str, int, int, int]]]:
    """Of each source: topic, partition, first place, place after; most records first."""
    sources = progress.get("sources")
    for number, source in enumerate(sources if isinstance(sources, list) else []):
        told = source if isinstance(source, Mapping) else {}
        begin = _of(told.get("startOffset")) or positions.first(checkpoint, number)
        found = [
            (topic, partition, begin.get(topic, {}).get(partition, 0), after)
            for topic, partitions in (_of(told.get("endOffset")) if begin else {}).items()
            for partition, after in partitions.items()
        ]
        yield sorted((one for one in found if one[3] > one[2]), key=lambda one: one[2] - one[3])


def _of(told: Any) -> Positions:
    return positions.of_source(told if isinstance(told, Mapping) else {})
