"""How a run ended, as the supervisor sees it: also without a word of the driver's own.

Used by keepers. Invariant: what was ordered and what was left behind decide, never a guess about
what a process that is gone may have meant.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from headrace.failures.fingerprint import normalised
from headrace.model.outcomes import PastRun
from headrace.model.places import Places
from headrace.model.runs import Ending, Exit, Orders, RunSpec
from headrace.model.runview import RunView
from headrace.state import folders
from headrace.supervisor import process

_FULL = (errno.ENOSPC, errno.EDQUOT)


def concluded(spec: RunSpec, exit_: Exit, view: RunView, ended_at: float) -> PastRun:
    return PastRun(
        spec=spec,
        exit=exit_,
        ended_at=ended_at,
        lived_s=max(0.0, exit_.at - spec.at),
        has_worked=view.has_worked,
        committed={name: query.batches for name, query in view.queries.items()},
    )


def keep_series(places: Places, run: str, view: RunView) -> None:
    """What the next run compares itself with. Lost, it only has less of a past."""
    series = {name: query.series for name, query in view.queries.items()}
    with contextlib.suppress(OSError):
        folders.write_series(places, run, {**view.past, **series})


def ended_without_a_word(
    orders: Orders,
    at: float,
    code: int | None = None,
    log: Path | None = None,
    *,
    had_queries: bool = True,
) -> Exit:
    """The end of a driver that wrote no exit.json: what was ordered says which end it was."""
    if orders.kill_at is not None and orders.by_watchdog:
        ending, what = Ending.STALLED, f"The driver hung and was killed: {orders.kill_reason}."
    elif orders.drain_at is not None and not had_queries:
        return Exit(Ending.DRAINED.value, code=0, at=at)  # so early that it could not even say so
    elif orders.drain_at is not None:
        why = orders.kill_reason or "it ended in the middle of it"
        ending, what = Ending.CUT, f"The driver was asked to stop ({orders.drain_reason}): {why}."
    elif code is not None and code >= 0:  # by itself: the three-times rule holds
        return _died(code, at, log)
    else:
        ending = Ending.VANISHED
        what = "The driver vanished: it was killed, or the machine went down."
    error = {"slug": f"driver-{ending.value}", "what": what}
    return Exit(ending.value, code=-1, at=at, error=error)


def _died(code: int, at: float, log: Path | None) -> Exit:
    last = (process.tail_of(log).strip().splitlines() or [""])[-1] if log else ""
    error = {
        "slug": "driver-died",
        "what": f"The driver ended with code {code} before it could say why.",
        "why": last or None,
        "where": str(log) if log else None,
    }
    found = f"driver-died {code} {normalised(last)[:200]}"  # a time in it makes no new failure
    return Exit(Ending.FAILED, code or 1, at, error, kind="unknown", fingerprint=found)


def could_not_start(exc: OSError, at: float) -> Exit:
    """The machine refused before there was a driver: it may have room again in a while."""
    said = f"{exc.strerror or exc}{f': {exc.filename}' if exc.filename else ''}"
    if exc.errno in _FULL:
        slug, what = "disk-full", f"The driver could not be started: disk full ({said})."
    else:
        slug, what = "spawn", f"The driver could not be started: {said}."
    error = {"slug": slug, "what": what, "fix": "it is tried again by itself"}
    return Exit(Ending.REFUSED, code=3, at=at, error=error, kind="retry", failure=slug)
