"""Exports progress events to other systems: reads new events, queues them, stores its position.

A Sink sends the records. Delivery is at least once: after a crash it continues with the oldest
event that was not confirmed. Invariant: the queue is bounded, drops are counted, and no query is
ever affected.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

from headrace.errors import Error
from headrace.model.progress_exports import Export
from headrace.model.state_paths import StatePaths
from headrace.relay.event_reader import EventReader, ReadEvent
from headrace.state import progress_exports

logger = logging.getLogger(__name__)

WAITING_MAX = 20_000  # events
BYTES_MAX = 64 * 1024 * 1024
BATCH = 500
BATCHES_PER_TICK = 20
TICK_S = 5.0  # no batch starts after this, so that the counts stay current
HOST = socket.gethostname()


@dataclass(frozen=True, slots=True)
class SendResult:
    """Which records of one call arrived and which were refused, by number. The others are sent
    again; without a problem there was no time for them."""

    arrived: AbstractSet[int]
    refused: AbstractSet[int] = frozenset()
    problem: str | None = None


class Sink(Protocol):
    """`to` names the target, for people."""

    to: str

    def send(self, records: Sequence[tuple[str, dict[str, Any]]]) -> SendResult:
        """`records` are keys and bodies. Returns within seconds, even if the target is down."""


@dataclass
class Queue:
    """Events to send, the oldest first. No I/O."""

    dropped: int = 0
    bytes: int = 0
    waiting: deque[ReadEvent] = field(default_factory=deque)

    def add(self, events: Sequence[ReadEvent]) -> None:
        self.waiting.extend(events)
        self.bytes += sum(len(one.line) for one in events)
        while len(self.waiting) > WAITING_MAX or self.bytes > BYTES_MAX:
            self.bytes -= len(self.waiting.popleft().line)
            self.dropped += 1

    def head(self) -> list[ReadEvent]:
        return list(islice(self.waiting, BATCH))

    def settle(self, head: Sequence[ReadEvent], sent: SendResult) -> None:
        """`head` was sent; events that did not arrive keep their place."""
        done = sent.arrived | sent.refused
        left = [one for number, one in enumerate(head) if number not in done]
        for one in head:
            self.waiting.popleft()
            self.bytes -= len(one.line)
        self.waiting.extendleft(reversed(left))
        self.bytes += sum(len(one.line) for one in left)
        self.dropped += len(sent.refused)

    def marks(self, positions: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Where to continue in each run. `positions`: up to where its file was read."""
        found = {run: {"at": at, "waiting": 0} for run, at in positions.items()}
        for one in self.waiting:
            mark = found.setdefault(one.spec.run, {"at": one.begin, "waiting": 0})
            mark["at"] = min(mark["at"], one.begin)
            mark["waiting"] += 1
        return found


class Exporter:
    """Owns the queue and the file with its state."""

    def __init__(
        self, name: str, places: StatePaths, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = places
        self._clock = clock
        before = progress_exports.read(places, name)
        self._export = before or Export(name)
        self._written: Export | None = None
        marks = self._export.runs
        positions = {run: mark["at"] for run, mark in marks.items()}
        self._reader = EventReader(places, positions if before else None)
        # Read by an earlier process but not delivered: lost if the file has been deleted since.
        lost = [mark["waiting"] for run, mark in marks.items() if not places.events(run).exists()]
        self._queue = Queue(dropped=self._export.dropped + sum(lost))
        self._logged = self._export.dropped

    def tick(self, sink: Sink | None, now: float, wrong: str | None = None) -> str | None:
        """The problem with sending. `now` is wall-clock time, `wrong` a problem in the settings:
        without an earlier sink, events wait until it is fixed."""
        self._queue.add(self._reader.read())
        sent, problem = (0, None) if sink is None else self._send(sink)
        to = sink.to if sink is not None else self._export.to or f"[metrics.{self._export.name}]"
        is_more = self._queue.dropped > self._export.dropped
        self._export = replace(
            self._export,
            to=to,
            sent=self._export.sent + sent,
            dropped=self._queue.dropped,
            dropped_at=now if is_more else self._export.dropped_at,
            waiting=len(self._queue.waiting),
            problem=" ".join(words for words in (wrong, problem) if words) or None,
        )
        self._log_dropped()
        problem = self._write_down() or problem
        return f"progress events to {to} are waiting: {problem}" if problem else None

    def _log_dropped(self) -> None:
        """Whenever the number has doubled, and at the end."""
        dropped, is_over = self._export.dropped, self._export.problem is None
        if dropped > self._logged and (is_over or dropped >= 2 * self._logged):
            logger.warning("%s progress events to %s were dropped", dropped, self._export.to)
            self._logged = dropped

    def _send(self, sink: Sink) -> tuple[int, str | None]:
        arrived, until = 0, self._clock() + TICK_S
        for _ in range(BATCHES_PER_TICK):
            head = self._queue.head()
            if not head or self._clock() >= until:
                break
            more = {"host": HOST, "dropped": self._queue.dropped}
            records = [one.record() for one in head]
            try:
                sent = sink.send([(key, {**body, **more}) for key, body in records])
            except Error as exc:
                return arrived, f"{exc.what} {exc.why or ''}".rstrip()
            self._queue.settle(head, sent)
            arrived += len(sent.arrived)
            if sent.problem:
                return arrived, sent.problem
        return arrived, None

    def _write_down(self) -> str | None:
        """Only changes: other events may be read again."""
        news = replace(self._export, runs={})
        if news == self._written:
            return None
        whole = replace(news, runs=self._queue.marks(self._reader.positions))
        try:
            progress_exports.write(self._places, whole)
        except OSError as exc:
            return f"{self._places.export(news.name)} could not be written: {exc.strerror or exc}"
        self._written = news
        return None
