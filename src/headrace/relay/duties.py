"""The duties of the relay: each has its own thread, period and deadline.

A duty that fails is logged and repeated; one that does not return is reported by its name. Neither
affects the others. Invariant: only a duty's own thread calls its functions, so a duty shares no
object with another one unless that object says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headrace.model.times import span
from headrace.project.workspace import Workspace

EVERY_S = 5.0
DEADLINE_S = 60.0
REST_S_MIN = 0.5  # between two runs, however long they take

logger = logging.getLogger("headrace.relay")


def do_nothing() -> None:
    """For a duty that owns nothing."""


@dataclass(frozen=True, slots=True)
class Duty:
    """`run` does the work of one period and returns the current problems. `close` releases what
    the duty owns. `has_last_run`: it runs once more at the end, unless it has a problem."""

    name: str
    run: Callable[[Workspace], list[str]]
    close: Callable[[], None] = do_nothing
    every_s: float = EVERY_S
    deadline_s: float = DEADLINE_S
    has_last_run: bool = False


def rest_s(duty: Duty, began: float, ended: float) -> float:
    """How long to wait after a run. Pure."""
    return max(REST_S_MIN, began + duty.every_s - ended)


def describe_hang(duty: Duty, began: float | None, now: float) -> str | None:
    """The problem of a run that began then and has not returned. Pure."""
    if began is None or now - began <= duty.deadline_s:
        return None
    return f"{duty.name} hangs (for {span(now - began)}); the other duties continue"


class DutyThread:
    """Owns the thread of one duty. Every run gets the current workspace."""

    def __init__(
        self,
        duty: Duty,
        workspace: Callable[[], Workspace],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.duty = duty
        self._workspace = workspace
        self._clock = clock
        self._over = threading.Event()
        self._began: float | None = None  # of the current run
        self._problems: list[str] = []
        self._thread = threading.Thread(target=self._work, name=duty.name, daemon=True)
        self._thread.start()

    @property
    def problems(self) -> list[str]:
        hang = describe_hang(self.duty, self._began, self._clock())
        return [*self._problems, *([hang] if hang else [])]

    def end(self) -> None:
        """Asks it to end, without waiting."""
        self._over.set()

    def has_ended(self, timeout_s: float) -> bool:
        self._thread.join(max(0.0, timeout_s))
        return not self._thread.is_alive()

    def _work(self) -> None:
        while not self._over.is_set():
            began = self._clock()
            self._run()
            self._over.wait(rest_s(self.duty, began, self._clock()))
        if self.duty.has_last_run and not self._problems:
            self._run()
        self._guard(self.duty.close)

    def _run(self) -> None:
        self._began = self._clock()
        self._guard(self._run_once)
        self._began = None

    def _run_once(self) -> None:
        self._problems = list(self.duty.run(self._workspace()))

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as exc:  # a boundary: a failure of one duty must not end the others
            problem = f"{self.duty.name} failed: {type(exc).__name__}: {exc}"
            if self._problems != [problem]:
                logger.exception("%s failed; it is repeated", self.duty.name)
            self._problems = [problem]


class DutyRoster:
    """Owns the threads of all duties."""

    def __init__(self, duties: Iterable[Duty], workspace: Callable[[], Workspace]) -> None:
        self._threads = [DutyThread(duty, workspace) for duty in duties]

    @property
    def problems(self) -> list[str]:
        return [problem for thread in self._threads for problem in thread.problems]

    def end(self, timeout_s: float) -> Sequence[str]:
        """Ends all duties. Returns the names of those that did not end in time."""
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.end()
        left = [t for t in self._threads if not t.has_ended(until - time.monotonic())]
        return [thread.duty.name for thread in left]
