"""The transport of the demo's logs by files.

`kafka_transport.KafkaTransport` has the same methods for Kafka; `Transport` there is either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from headrace.config import Settings
from headrace.demo import input_reader, outputs, read_progress
from headrace.demo.latency import Latency
from headrace.demo.loss_count import Outputs
from headrace.demo.paths import DemoPaths


class FileTransport:
    at_least_once: Collection[str] = ()  # outputs in which rows may repeat

    def __init__(self, settings: Settings, demo: DemoPaths) -> None:
        self._settings = settings
        self._demo = demo
        self._beats = outputs.GrowingOutput(demo.heartbeats, outputs.rows_in)

    def generator_args(self) -> list[str]:
        """Arguments that tell the generator where to write."""
        return []

    def lines(self) -> Iterable[bytes]:
        """All input, in order."""
        files = input_reader.input_files(self._demo.incoming, self._demo.truth)
        return (line for path in files for line in input_reader.lines_of(path))

    def read_outputs(self) -> Outputs:
        beats = outputs.heartbeat_lines(self._demo.heartbeats)
        return outputs.read_all(self._settings, self._demo, beats)

    def pending(self) -> list[str]:
        """Describe what is not processed yet; [] when all results are complete."""
        return read_progress.pending(self._settings, self._demo)

    def behind(self, rate: int) -> int:
        """How far the slowest query is behind, in seconds of input at this rate."""
        return read_progress.behind(self._settings, self._demo)

    def input_bytes(self) -> int:
        """Size of the input on this disk."""
        return sum(path.stat().st_size for path in self._demo.incoming.glob("[!.]*"))

    def beats(self) -> tuple[int, int | None]:
        """Number of heartbeats written, and of their files."""
        self._beats.update()
        return self._beats.sums.total(), len(self._beats.seen)

    def is_flowing(self, query: str) -> bool:
        """A real-time query has written rows, though its first batch is not reported yet."""
        return False

    def has_taken_alerts(self, since: float) -> bool:
        """All alert rows sent before this time are in the store."""
        return not read_progress.alert_rows(self._settings)

    def latencies(self) -> Mapping[str, Latency]:
        """By output, where it can be measured from outside."""
        return {}
