"""Progress to a Kafka topic (`[metrics.kafka]`): one JSON record per event, keyed PIPELINE/QUERY.

A duty of the relay.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.config import Settings
from headrace.connectors.kafka.producer import Producer
from headrace.errors import Error
from headrace.project import system_topics
from headrace.project.workspace import Workspace
from headrace.relay.progress_export import Exporter, SendResult

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

NAME = "kafka"  # of the exporter
SEND_S = 5.0


class MetricsTopic:
    """A sink of progress; the connection is made with the first record."""

    def __init__(self, connector: Kafka) -> None:
        self.to = f"{connector.topic} on {connector.servers}"
        self._connector = connector
        self._records: Producer | None = None

    def send(self, records: Sequence[tuple[str, dict[str, Any]]]) -> SendResult:
        self._records = self._records or Producer(self._connector, SEND_S)
        lines = [(key, json.dumps(body, separators=(",", ":")).encode()) for key, body in records]
        done = self._records.send(lines)
        problem = None if done.problem is None else f"{done.problem.what} {done.problem.why or ''}"
        return SendResult(done.arrived, done.too_large, problem)

    def close(self) -> None:
        if self._records is not None:
            self._records.close()


class KafkaMetrics:
    """Owns the exporter, while the settings ask for one."""

    def __init__(self) -> None:
        self._exporting: Exporter | None = None
        self._topic: MetricsTopic | None = None
        self._asked: Kafka | None = None

    def tick(self, work: Workspace) -> list[str]:
        """The problem, if any. While the settings are invalid, the last valid ones apply."""
        wrong = None
        try:
            self._choose(work.settings)
        except Error as exc:
            wrong = f"{exc.what} {exc.why or ''}".rstrip()
        if self._topic is None and wrong is None:
            return []
        self._exporting = self._exporting or Exporter(NAME, work.places)
        problem = self._exporting.tick(self._topic, time.time(), wrong)
        return [words for words in (wrong, problem) if words]

    def close(self) -> None:
        if self._topic is not None:
            self._topic.close()
        self._topic = self._asked = None

    def _choose(self, settings: Settings) -> None:
        asked = system_topics.metrics(settings)
        if asked != self._asked:
            self.close()
            self._asked = asked
            self._topic = None if asked is None else MetricsTopic(asked)
