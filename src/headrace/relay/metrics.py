"""Progress to a Kafka topic (`[metrics.kafka]`): one JSON record an event, keyed PIPELINE/QUERY.

Called by `main` in every round. Further exporters stand beside it: a Sink each, and an Exporting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from headrace.config import Settings
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkarecords import Records
from headrace.errors import Error
from headrace.project import outlets
from headrace.project.workspace import Workspace
from headrace.relay.exporting import Exporting, Sent

NAME = "kafka"  # of the exporter
SEND_S = 5.0


class Topic:
    """A sink of progress; the connection is made with the first record."""

    def __init__(self, connector: Kafka) -> None:
        self.to = f"{connector.topic} on {connector.servers}"
        self._connector = connector
        self._records: Records | None = None

    def send(self, records: Sequence[tuple[str, dict[str, Any]]]) -> Sent:
        self._records = self._records or Records(self._connector, SEND_S)
        lines = [(key, json.dumps(body, separators=(",", ":")).encode()) for key, body in records]
        done = self._records.send(lines)
        problem = None if done.problem is None else f"{done.problem.what} {done.problem.why or ''}"
        return Sent(done.arrived, done.too_large, problem)

    def close(self) -> None:
        if self._records is not None:
            self._records.close()


class Metrics:
    """Owns the exporter, while the settings ask for one."""

    def __init__(self) -> None:
        self._exporting: Exporting | None = None
        self._topic: Topic | None = None
        self._asked: Kafka | None = None

    def tick(self, work: Workspace) -> list[str]:
        """What is wrong, in words. While the settings are, what stood there before holds."""
        wrong = None
        try:
            self._choose(work.settings)
        except Error as exc:
            wrong = f"{exc.what} {exc.why or ''}".rstrip()
        if self._topic is None and wrong is None:
            return []
        self._exporting = self._exporting or Exporting(NAME, work.places)
        problem = self._exporting.tick(self._topic, time.time(), wrong)
        return [words for words in (wrong, problem) if words]

    def close(self) -> None:
        if self._topic is not None:
            self._topic.close()
        self._topic = self._asked = None

    def _choose(self, settings: Settings) -> None:
        asked = outlets.metrics(settings)
        if asked != self._asked:
            self.close()
            self._asked = asked
            self._topic = None if asked is None else Topic(asked)
