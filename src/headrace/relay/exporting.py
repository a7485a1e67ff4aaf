"""Sends progress events out of the house: reads along, keeps what waits, remembers how far it came.

One Exporting an exporter; how records travel is its Sink's. At least once: a relay that was killed
goes on with the oldest event that was not confirmed. Invariant: what waits is bounded, and what had
to be dropped is counted; no query ever notices.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headrace.errors import Error
from headrace.model.exports import Export
from headrace.model.places import Places
from headrace.relay.following import Following, Told
from headrace.state import exports

logger = logging.getLogger(__name__)

WAITING_MAX = 20_000  # events
BYTES_MAX = 64 * 1024 * 1024
BATCH = 500
BATCHES_PER_TICK = 20
TICK_S = 5.0  # none is begun after this: lag and alerts wait in the same thread
HOST = socket.gethostname()


@dataclass(frozen=True, slots=True)
class Sent:
    """Of the records of one call, by number: which arrived, and which nobody will ever take. The
    others are sent again; without a problem there was no time for them."""

    arrived: AbstractSet[int]
    refused: AbstractSet[int] = frozenset()
    problem: str | None = None


class Sink(Protocol):
    """`to` says where records go, for people."""

    to: str

    def send(self, records: Sequence[tuple[str, dict[str, Any]]]) -> Sent:
        """Key and body of each. Returns within seconds, whatever is down."""


@dataclass
class Queue:
    """What waits, the oldest first. No I/O."""

    dropped: int = 0
    bytes: int = 0
    waiting: deque[Told] = field(default_factory=deque)

    def add(self, told: Sequence[Told]) -> None:
        self.waiting.extend(told)
        self.bytes += sum(len(one.line) for one in told)
        while len(self.waiting) > WAITING_MAX or self.bytes > BYTES_MAX:
            self.bytes -= len(self.waiting.popleft().line)
            self.dropped += 1

    def head(self) -> list[Told]:
        return [self.waiting[number] for number in range(min(BATCH, len(self.waiting)))]

    def settle(self, head: Sequence[Told], sent: Sent) -> None:
        """`head` is what was sent; what did not arrive waits on, in its place."""
        left = [
            one
            for number, one in enumerate(head)
            if number not in sent.arrived and number not in sent.refused
        ]
        for one in head:
            self.waiting.popleft()
            self.bytes -= len(one.line)
        self.waiting.extendleft(reversed(left))
        self.bytes += sum(len(one.line) for one in left)
        self.dropped += len(sent.refused)

    def marks(self, positions: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Of each run where another life goes on. `positions`: up to where its file was read."""
        found = {run: {"at": at, "waiting": 0} for run, at in positions.items()}
        for one in self.waiting:
            mark = found.setdefault(one.spec.run, {"at": one.begin, "waiting": 0})
            mark["at"] = min(mark["at"], one.begin)
            mark["waiting"] += 1
        return found


class Exporting:
    """Owns the queue, and the file that remembers."""

    def __init__(
        self, name: str, places: Places, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = places
        self._clock = clock
        before = exports.read(places, name)
        marks = before.runs if before is not None else None
        self._export = before or Export(name)
        self._written: Export | None = None
        self._following = Following(
            places, None if marks is None else {run: mark["at"] for run, mark in marks.items()}
        )
        # Read in an earlier life, and not delivered: what has been deleted since is lost.
        lost = [
            mark["waiting"]
            for run, mark in (marks or {}).items()
            if not places.events(run).exists()
        ]
        self._queue = Queue(dropped=self._export.dropped + sum(lost))
        self._said = self._export.dropped  # of them, in the log

    def tick(self, sink: Sink | None, now: float, wrong: str | None = None) -> str | None:
        """What is wrong with sending, in words. `now` is wall-clock time, `wrong` what is wrong
        with the settings: without a sink of before, all waits until they are right."""
        self._queue.add(self._following.read())
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
        self._tell_dropped()
        problem = self._write_down() or problem
        return f"progress events to {to} wait: {problem}" if problem else None

    def _tell_dropped(self) -> None:
        """While it grows, whenever it has doubled; and how many it were in the end."""
        dropped, is_over = self._export.dropped, self._export.problem is None
        if dropped > self._said and (is_over or dropped >= 2 * self._said):
            logger.warning("%s progress events to %s were dropped", dropped, self._export.to)
            self._said = dropped

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
        """Only news: lines that are no progress may well be read again."""
        news = replace(self._export, runs={})
        if news == self._written:
            return None
        whole = replace(news, runs=self._queue.marks(self._following.positions))
        try:
            exports.write(self._places, whole)
        except OSError as exc:
            return f"{self._places.export(news.name)} cannot be written: {exc.strerror or exc}"
        self._written = news
        return None
