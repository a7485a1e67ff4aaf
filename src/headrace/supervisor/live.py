"""A driver in the supervisor's hands: its process, its events as they come, its orders.

Owned by a keeper. Invariants: an order is on disk before it is carried out; bounded work a tick,
however much was written while nobody read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace import processes
from headrace.checkpoints import positions
from headrace.model.conditions import table
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits
from headrace.model.outcomes import PastRun
from headrace.model.places import Places
from headrace.model.runs import Orders, Process, RunSpec
from headrace.state import folders
from headrace.supervisor import process
from headrace.supervisor.history import History
from headrace.supervisor.situation import LiveRun
from headrace.supervisor.watch import Watch

logger = logging.getLogger(__name__)

JUDGE_S = 2.0
CHUNKS_PER_TICK = 8  # each is read, folded and stored before the next
NOBODY = Process(0, 0.0, "")


@dataclass(frozen=True, slots=True)
class House:
    """What all keepers share."""

    project: Path
    places: Places
    history: History
    wall: Callable[[], float]
    driver_command: Sequence[str] = process.DRIVER


class Live:
    """One run from its launch or adoption until its last line is read.

    `is_over`: its process is gone. `was_found_over`: it was so when this supervisor started.
    """

    def __init__(
        self,
        house: House,
        spec: RunSpec,
        process: Process,
        now: float,
        before: Sequence[PastRun] = (),
    ) -> None:
        """`before` are the runs before it: the counts of the last one are this one's past."""
        self.house = house
        self.spec = spec
        self.process = process
        self.known_since = now
        past = folders.series_of(house.places, before[-1].spec.run) if before else {}
        self.watch = Watch(house.places.events(spec.run), past)
        self.orders = Orders()
        self.exit_seen_at: float | None = None
        self._judged: tuple[float, Mapping[str, tuple[Finding, ...]]] = -JUDGE_S, {}
        self.is_over = False
        self.was_found_over = False
        self._is_signalled = True

    @classmethod
    def adopted(
        cls,
        house: House,
        spec: RunSpec,
        process: Process | None,
        now: float,
        before: Sequence[PastRun] = (),
    ) -> Live:
        """Of a former supervisor; without a process only its last lines are left to read."""
        found = cls(house, spec, process or NOBODY, now, before)
        found.orders = folders.orders_of(house.places, spec.run, now)
        found.is_over = found.was_found_over = process is None
        # It may have been killed after it wrote the order down and before it sent the signal.
        found._is_signalled = found.orders.drain_at is None or found.orders.cut_at is not None
        return found

    def read(self, now: float) -> bool:
        """True when nothing is left to read for now."""
        # The process first: if it is gone, what is read after that holds its last words.
        self.is_over = self.is_over or not processes.is_alive(self.process)
        for _ in range(CHUNKS_PER_TICK):
            heard = self.watch.read(now)
            self.house.history.progressed(self.spec.pipeline, self.spec.run, heard, now)
            if self.watch.is_at_end:
                break
        if not self.is_over and self.exit_seen_at is None:
            is_written = self.house.places.exit(self.spec.run).exists()
            self.exit_seen_at = now if is_written else None
        return self.watch.is_at_end

    def findings(self, limits: HealthLimits, now: float) -> Mapping[str, tuple[Finding, ...]]:
        """What is wrong though it runs. Looked at every few seconds, not at every tick."""
        judged_at, _ = self._judged
        if now - judged_at >= JUDGE_S:
            self._judged = now, table.by_query(self.watch.view, limits)
        return self._judged[1]

    def seen(self) -> LiveRun:
        view = self.watch.view
        is_unsure = not self._is_signalled and self.watch.is_at_end and view.draining_at is None
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
        """Every query has looked at its sources, and stands behind what a person left out."""
        gaps = self.spec.accepted_gaps
        return gaps is not None and self.watch.view.has_worked and positions.are_behind(gaps)

    def worked_until(self, query: str) -> float | None:
        """When it last committed a batch or found nothing to do, by the driver's clock."""
        seen = self.watch.view.queries.get(query)
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
        process.end_runs((self.spec.run,), self.house.places.state)

    def dump_threads(self, now: float) -> str:
        self.order(dumped_at=now)
        jvm, run, places = self.watch.view.jvm_pid, self.spec.run, self.house.places
        is_dumped = jvm is not None and process.dump_threads(jvm, run, places.state)
        return f"threads are in {places.log(run)}" if is_dumped else "no thread dump"

    def order(self, **changes: Any) -> None:
        """On disk first: what is then done, or not, can be told from it.

        A full disk makes us forgetful, not helpless: stopping works all the same.
        """
        orders = replace(self.orders, **changes)
        try:
            folders.write_orders(self.house.places, self.spec.run, orders)
        except OSError as exc:
            about = {"pipeline": self.spec.pipeline, "run": self.spec.run}
            logger.error("orders could not be written down: %s", exc, extra=about)
        self.orders = orders
