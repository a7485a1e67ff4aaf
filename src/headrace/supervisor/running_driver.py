"""One driver that the supervisor controls: its process, its events, its orders.

Invariants: an order is on disk before it is carried out; bounded work per tick.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace import process_identity
from headrace.checkpoints import positions
from headrace.health.conditions import table
from headrace.health.run_view import RunView, fold
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits
from headrace.model.runs import Orders, PastRun, Process, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import run_folders
from headrace.state.event_file import EventFile
from headrace.supervisor import process
from headrace.supervisor.situation import LiveRun
from headrace.supervisor.store_writer import StoreWriter

logger = logging.getLogger(__name__)

JUDGE_S = 2.0
JUDGE_ALL_S = 30.0  # a query that reports nothing: some problems grow with time
CHUNKS_PER_TICK = 8  # each is read, folded and stored before the next
NOBODY = Process(0, 0.0, "")


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared by all keepers."""

    project: Path
    places: StatePaths
    history: StoreWriter
    wall: Callable[[], float]
    driver_command: Sequence[str] = process.DRIVER


class RunningDriver:
    """One run from its launch or adoption until its last event is read.

    `is_over`: its process has ended. `was_found_over`: before this supervisor started.
    """

    def __init__(
        self,
        shared: Shared,
        spec: RunSpec,
        process: Process,
        now: float,
        before: Sequence[PastRun] = (),
    ) -> None:
        """`before` are the earlier runs: this run compares itself with the last one's counts."""
        self.shared = shared
        self.spec = spec
        self.process = process
        self.known_since = now
        past = run_folders.series_of(shared.places, before[-1].spec.run) if before else {}
        self.view = RunView(past=past)
        self._events = EventFile(shared.places.events(spec.run))
        self.orders = Orders()
        self.exit_seen_at: float | None = None
        self._judged: tuple[float, Mapping[str, tuple[Finding, ...]]] = -JUDGE_S, {}
        self._findings: dict[str, tuple[float, tuple[object, ...], tuple[Finding, ...]]] = {}
        self.is_over = False
        self.was_found_over = False
        self._is_signalled = True

    @classmethod
    def adopt(
        cls,
        shared: Shared,
        spec: RunSpec,
        process: Process | None,
        now: float,
        before: Sequence[PastRun] = (),
    ) -> RunningDriver:
        """Takes over a run of an earlier supervisor; without a process, reads only its events."""
        found = cls(shared, spec, process or NOBODY, now, before)
        found.orders = run_folders.orders_of(shared.places, spec.run, now)
        found.is_over = found.was_found_over = process is None
        # The supervisor may have been killed between writing the order and sending the signal.
        found._is_signalled = found.orders.drain_at is None or found.orders.cut_at is not None
        return found

    def read(self, now: float) -> bool:
        """True when all events so far are read."""
        # Check the process first: if it has ended, the following reads get its last events.
        self.is_over = self.is_over or not process_identity.is_alive(self.process)
        for _ in range(CHUNKS_PER_TICK):
            heard = self._events.events()
            for event in heard:
                self.view = fold(self.view, event, now)
            self.shared.history.record_progress(self.spec.pipeline, self.spec.run, heard, now)
            if self._events.is_at_end:
                break
        if not self.is_over and self.exit_seen_at is None:
            is_written = self.shared.places.exit(self.spec.run).exists()
            self.exit_seen_at = now if is_written else None
        return self._events.is_at_end

    def findings(self, limits: HealthLimits, now: float) -> Mapping[str, tuple[Finding, ...]]:
        """Problems of the running queries. Evaluated every few seconds, not in every tick, and only
        for queries that have reported something, or after a while."""
        judged_at, before = self._judged
        if now - judged_at < JUDGE_S:
            return before
        found = {}
        for name, query in self.view.queries.items():
            facts = (query.series, query.outage, query.inputs, query.examples, query.stopped,
                     query.terminated_at)  # fmt: skip
            at, known, findings = self._findings.get(name, (-JUDGE_ALL_S, (), ()))
            if now - at >= JUDGE_ALL_S or not _are_same(facts, known):
                findings = table.of_query(self.view, query, limits)
                self._findings[name] = now, facts, findings
            if findings:
                found[name] = findings
        self._judged = now, found
        return found

    def snapshot(self) -> LiveRun:
        view = self.view
        is_unsure = not self._is_signalled and self._events.is_at_end and view.draining_at is None
        return LiveRun(
            spec=self.spec,
            view=view,
            known_since=self.known_since,
            orders=self.orders,
            exit_seen_at=self.exit_seen_at,
            is_unsignalled=is_unsure,
            has_passed_gaps=self._has_passed_gaps(),
        )

    def _has_passed_gaps(self) -> bool:
        """Every query has checked its sources and is past the accepted gaps."""
        gaps = self.spec.accepted_gaps
        return gaps is not None and self.view.has_worked and positions.are_behind(gaps)

    def worked_until(self, query: str) -> float | None:
        """When it last committed a batch or was idle, by the driver's clock."""
        seen = self.view.queries.get(query)
        times = (seen.last_progress_at, seen.last_idle_at) if seen is not None else ()
        return max((at for at in times if at is not None), default=None)

    def drain(self, reason: str, now: float) -> None:
        self.order(drain_at=now, drain_reason=reason)
        self._is_signalled = True
        process.ask_to_end(self.process)

    def cut(self, now: float) -> None:
        self.order(cut_at=now)
        process.ask_to_end(self.process)

    def end_now(self, reason: str, by_watchdog: bool, now: float) -> None:
        self.order(kill_at=now, kill_reason=reason, by_watchdog=by_watchdog)
        process.end_now(self.process)
        process.end_runs((self.spec.run,), self.shared.places.state)

    def dump_threads(self, now: float) -> str:
        self.order(dumped_at=now)
        jvm, run, places = self.view.jvm_pid, self.spec.run, self.shared.places
        is_dumped = jvm is not None and process.dump_threads(jvm, run, places.state)
        return f"thread dump in {places.log(run)}" if is_dumped else "no thread dump"

    def order(self, **changes: Any) -> None:
        """Written to disk first. On a full disk the order is carried out anyway."""
        orders = replace(self.orders, **changes)
        try:
            run_folders.write_orders(self.shared.places, self.spec.run, orders)
        except OSError as exc:
            about = {"pipeline": self.spec.pipeline, "run": self.spec.run}
            logger.error("orders could not be written: %s", exc, extra=about)
        self.orders = orders


def _are_same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """The very same objects: comparing their values would cost as much as judging them."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
