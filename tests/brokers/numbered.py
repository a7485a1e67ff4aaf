"""A producer for proofs: it knows exactly which records the broker took."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import Producer

from brokers.cluster import Cluster


class Numbers:
    """Produces numbers as records, one after the other, and remembers which the broker took."""

    def __init__(self, broker: Cluster, topic: str, every_s: float = 0.01) -> None:
        self.taken: list[str] = []
        self._topic = topic
        self._every_s = every_s
        self._producer = Producer({"bootstrap.servers": broker.servers(), "linger.ms": 5,
                                   "enable.idempotence": True, "log_level": 0})  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self._every_s):
            self._producer.produce(self._topic, str(number), on_delivery=self._told)
            self._producer.poll(0)
            number += 1

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.taken.append(message.value().decode())

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
