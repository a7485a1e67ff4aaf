"""Asks the brokers when the records of a batch were written, and for a sample of them.

Called for every batch, on Spark's bus; used by `freshness` and `quality_counts`. Invariant: waits
for at most `WITHIN_S`, or twice as long while partition leaders move. `fetch_times` never raises,
and takes at most one part in `REST` of the time, so some batches have no ages.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.checkpoints import positions
from headrace.checkpoints.positions import Positions
from headrace.connectors.connector import Connector
from headrace.connectors.kafka.broker_client import client_key
from headrace.connectors.kafka.record_lookup import RecordLookup
from headrace.driver.freshness import Stretch
from headrace.errors import Error
from headrace.model.progress import Progress

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

WITHIN_S = 1.0
REST = 5  # after a request of 10 ms, none for 50 ms
PARTITIONS_MAX = 8  # of a source: those with the most records in the batch

logger = logging.getLogger(__name__)


class RecordAges:
    """Owns the clients, one per login and isolation level. They end with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read: dict[str, list[tuple[Kafka, RecordLookup]]] = {}
        self._clients: dict[str, RecordLookup] = {}
        self._rests_until: dict[str, float] = {}

    def note(self, query: str, sources: Iterable[Connector | None]) -> None:
        """Takes a query's sources. If no client can be made, its records have no ages."""
        try:
            topics = [kafka for source in sources if source and (kafka := source.as_kafka())]
            self._read[query] = [(kafka, self._client(kafka)) for kafka in topics]
        except Error as exc:
            logger.info("cannot measure how old the records of %s are: %s", query, exc.what)

    def fetch_times(
        self, query: str, progress: Progress, checkpoint: Path | None
    ) -> dict[int, list[Stretch]]:
        """By the number of the source in the progress."""
        now = self._clock()
        if query not in self._read or now < self._rests_until.get(query, 0.0):
            return {}
        try:
            return {
                number: list(self._fetch_stretches(self._read[query], places, now + WITHIN_S))
                for number, places in enumerate(_places(progress, checkpoint))
                if places
            }
        except Exception as exc:  # a border: on Spark's bus nothing may be raised
            logger.info("could not measure how old a batch of %s is: %s", query, exc)
            return {}
        finally:
            self._rests_until[query] = now + (self._clock() - now) * REST

    def values(
        self, kafka: Kafka, progress: Progress, checkpoint: Path | None, most: int
    ) -> list[bytes | None]:
        """The values of some adjacent records of a batch, from one partition of `kafka`."""
        places = [
            place
            for source_places in _places(progress, checkpoint)
            for place in source_places
            if kafka.covers(place[0])
        ]
        if not places:
            return []
        topic, partition, first, after = random.choice(places)  # noqa: S311 (a sample, no secret)
        begin = random.randint(first, max(first, after - most))  # noqa: S311
        return self._client(kafka).values(topic, partition, begin, after, WITHIN_S, most)

    def _fetch_stretches(
        self,
        read: list[tuple[Kafka, RecordLookup]],
        places: list[tuple[str, int, int, int]],
        until: float,
    ) -> Iterator[Stretch]:
        for topic, partition, first, after in places[:PARTITIONS_MAX]:
            client = next((client for kafka, client in read if kafka.covers(topic)), None)
            left_s = until - self._clock()
            if client is None or left_s <= 0:
                return
            if times := client.between(topic, partition, first, after, left_s):
                begin, end = sorted(at * 1000 for at in times)
                yield begin, end, after - first

    def _client(self, connector: Kafka) -> RecordLookup:
        key = client_key(connector)
        if key not in self._clients:
            self._clients[key] = RecordLookup(connector, WITHIN_S)
        return self._clients[key]


def _places(
    progress: Progress, checkpoint: Path | None
) -> Iterator[list[tuple[str, int, int, int]]]:
    """For each source: topic, partition, first offset, offset after the last. Largest first."""
    for number, source in enumerate(progress.sources):
        begin = _parse_positions(source.start_offset) or positions.first(checkpoint, number)
        end = _parse_positions(source.end_offset) if begin else {}
        places = [
            (topic, partition, begin.get(topic, {}).get(partition, 0), after)
            for topic, partitions in end.items()
            for partition, after in partitions.items()
        ]
        yield sorted((p for p in places if p[3] > p[2]), key=lambda place: place[2] - place[3])


def _parse_positions(offset: Any) -> Positions:
    return positions.from_json(offset if isinstance(offset, Mapping) else {})
