"""Sends metrics to a StatsD server or a Datadog agent over UDP (`[metrics.statsd]`).

The last values of counters are stored before their increases are sent: after a crash an increase
may be missing, but is never counted twice. Invariant: never waits for the receiver.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence

from headrace.errors import Error
from headrace.json_file import read_valid, write_json
from headrace.metrics import exporters, statsd_lines
from headrace.metrics.exporters import StatsdSettings
from headrace.metrics.statsd_lines import Counters
from headrace.model.state_paths import StatePaths
from headrace.project.workspace import Workspace
from headrace.relay.export_record import ExportRecord
from headrace.relay.metric_facts import MetricSource

NAME = "statsd"
RESOLVE_S = 60.0  # how often the address is looked up
KEPT_S = 3600.0  # an increase over a longer pause would look like a burst


class StatsdExport:
    """Owns the socket and the last values of counters."""

    def __init__(self, source: MetricSource) -> None:
        self._source = source
        self._socket: socket.socket | None = None
        self._settings: StatsdSettings | None = None  # of the socket
        self._resolved_at = 0.0
        self._due_at = 0.0
        self._record: ExportRecord | None = None
        self._counters: Counters | None = None

    def tick(self, work: Workspace) -> list[str]:
        """Sends what is due. Returns the problems."""
        try:
            asked = exporters.statsd(work.settings)
        except Error as exc:
            self._record = self._record or ExportRecord(work.places, NAME)
            return self._record.note(time.time(), "", problem=f"{exc.what} {exc.why or ''}".strip())
        now = time.monotonic()
        if asked is None:
            self.close()
            return []
        if asked == self._settings and now < self._due_at:
            return []
        self._due_at = now + exporters.parse_every(asked.every)
        return self._export(work, asked, now)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self._settings = None

    def _export(self, work: Workspace, asked: StatsdSettings, now: float) -> list[str]:
        self._record = self._record or ExportRecord(work.places, NAME)
        if asked != self._settings:
            self._counters = _read_counters(work.places, asked, time.time())
        found = statsd_lines.write(
            self._source.families(work), asked.prefix,
            has_tags=asked.tags == "datadog", before=self._counters,
        )  # fmt: skip
        problem = None
        sent = dropped = 0
        try:
            self._connect(asked, now)
            _write_counters(work.places, asked, found.counters, time.time())
            self._counters = found.counters
            sent, dropped, problem = self._send(found.lines)
        except OSError as exc:
            problem, dropped = f"{asked.address}: {exc.strerror or exc}", len(found.lines)
        return self._record.note(
            time.time(), asked.address, sent=sent, dropped=dropped, problem=problem
        )

    def _connect(self, asked: StatsdSettings, now: float) -> None:
        """Looks the address up now and then: the receiver may have moved."""
        if asked == self._settings and self._socket and now < self._resolved_at + RESOLVE_S:
            return
        self.close()
        address = exporters.parse_address("address", asked.address)
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_DGRAM
        )[0]
        found = socket.socket(family, kind, protocol)
        try:
            found.setblocking(False)
            found.connect(place)
        except OSError:
            found.close()
            raise
        self._socket, self._settings, self._resolved_at = found, asked, now

    def _send(self, lines: Sequence[str]) -> tuple[int, int, str | None]:
        """How many lines were sent and dropped, and why."""
        assert self._socket is not None  # noqa: S101 - see _connect
        sent = dropped = 0
        problem = None
        for packet, count in statsd_lines.pack(lines):
            try:
                self._socket.send(packet)
            except OSError as exc:  # nobody listens, or the send buffer is full
                problem, dropped = f"{exc.strerror or exc}", dropped + count
            else:
                sent += count
        return sent, dropped, problem


def _read_counters(places: StatePaths, asked: StatsdSettings, now: float) -> Counters | None:
    """Those of an earlier process, if it used the same names a short time ago."""

    def parse(body: dict[str, object]) -> Counters | None:
        at, counters = body["at"], body["counters"]
        is_same = body["names"] == _names(asked) and isinstance(at, float | int)
        if not is_same or not isinstance(counters, dict) or not 0 <= now - at < KEPT_S:  # type: ignore[operator]
            return None
        return {str(name): float(value) for name, value in counters.items()}

    return read_valid(places.export_counters(NAME), parse)


def _write_counters(
    places: StatePaths, asked: StatsdSettings, counters: Counters, now: float
) -> None:
    body = {"at": now, "names": _names(asked), "counters": dict(counters)}
    write_json(places.export_counters(NAME), body)


def _names(asked: StatsdSettings) -> list[str]:
    """What the names of series depend on."""
    return [asked.prefix, asked.tags]
