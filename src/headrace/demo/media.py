"""What carries the demo's logs: files, or topics of Kafka (`topics.py`). The session, the view and
the count ask here, and do not know which it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from headrace.config import Settings
from headrace.demo import outputs, reach, truth
from headrace.demo.count import Found
from headrace.demo.latency import Latency
from headrace.demo.places import DemoPlaces


class Medium(Protocol):
    at_least_once: Collection[str]  # outputs in which rows may come again

    def generator_args(self) -> list[str]:
        """Where it is to write."""

    def lines(self) -> Iterable[bytes]:
        """All that went in, in its order."""

    def found(self) -> Found:
        """All that came out."""

    def pending(self) -> list[str]:
        """What is not read or taken yet, in words; [] when everything has come out."""

    def behind(self, rate: int) -> int:
        """Seconds of input, at so many lines a second, that the slowest query has yet to read."""

    def kept_bytes(self) -> int:
        """Of input on this disk."""

    def beats(self) -> tuple[int, int | None]:
        """Heartbeats that came out, and in how many files."""

    def is_flowing(self, query: str) -> bool:
        """A query that tells of its first batch only when that ends has given its first rows."""

    def has_taken_alerts(self, since: float) -> bool:
        """Whether all alert rows that were sent before this moment are in the store."""

    def latencies(self) -> Mapping[str, Latency]:
        """By output, as far as it can be measured from outside."""


class OnFiles:
    def __init__(self, settings: Settings, demo: DemoPlaces) -> None:
        self._settings = settings
        self._demo = demo
        self._beats = outputs.Growing(demo.heartbeats, outputs.rows_in)

    at_least_once: Collection[str] = ()

    def generator_args(self) -> list[str]:
        return []

    def lines(self) -> Iterable[bytes]:
        files = truth.input_files(self._demo.incoming, self._demo.truth)
        return (line for path in files for line in truth.lines_of(path))

    def found(self) -> Found:
        beats = outputs.heartbeat_lines(self._demo.heartbeats)
        return outputs.found(self._settings, self._demo, beats)

    def pending(self) -> list[str]:
        return reach.pending(self._settings, self._demo)

    def behind(self, rate: int) -> int:
        return reach.behind(self._settings, self._demo)

    def kept_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._demo.incoming.glob("[!.]*"))

    def beats(self) -> tuple[int, int | None]:
        self._beats.update()
        return self._beats.sums.total(), len(self._beats.seen)

    def is_flowing(self, query: str) -> bool:
        return False

    def has_taken_alerts(self, since: float) -> bool:
        return not reach.alert_rows(self._settings)

    def latencies(self) -> Mapping[str, Latency]:
        return {}
