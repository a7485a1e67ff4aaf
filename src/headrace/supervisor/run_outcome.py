"""Determines how a run ended, even if the driver left no exit.json.

Decides by the recorded orders, the exit code and the log.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

from headrace.failures.classifier import FailureText, classify
from headrace.failures.fingerprint import normalise
from headrace.health.run_view import RunView
from headrace.model.runs import Ending, Exit, Orders, PastRun, RunSpec, pipeline_of
from headrace.model.state_paths import StatePaths
from headrace.state import run_folders
from headrace.supervisor import process

_FULL = (errno.ENOSPC, errno.EDQUOT)


def build_past_run(spec: RunSpec, exit_: Exit, view: RunView, ended_at: float) -> PastRun:
    return PastRun(
        spec=spec,
        exit=exit_,
        ended_at=ended_at,
        lived_s=max(0.0, exit_.at - spec.at),
        has_worked=view.has_worked,
        committed={name: query.batches for name, query in view.queries.items()},
    )


def keep_series(places: StatePaths, run: str, view: RunView) -> None:
    """Saves the counts that the next run compares itself with."""
    series = {name: query.series for name, query in view.queries.items()}
    with contextlib.suppress(OSError):
        run_folders.write_series(places, run, {**view.past, **series})


def infer_exit(
    orders: Orders,
    at: float,
    code: int | None = None,
    log: Path | None = None,
    *,
    had_queries: bool = True,
) -> Exit:
    """The exit of a driver that wrote no exit.json, inferred from the orders."""
    if orders.kill_at is not None and orders.by_watchdog:
        ending, what = Ending.STALLED, f"The driver stalled and was killed: {orders.kill_reason}."
    elif orders.drain_at is not None and not had_queries:
        return Exit(Ending.DRAINED.value, code=0, at=at)  # too early to write exit.json
    elif orders.drain_at is not None:
        why = orders.kill_reason or "it exited before the drain was complete"
        ending, what = Ending.CUT, f"The driver was asked to stop ({orders.drain_reason}): {why}."
    elif code is not None and code >= 0:  # not killed: the three-failures rule applies
        return _exit_from_code(code, at, log)
    else:
        ending = Ending.VANISHED
        what = "The driver disappeared: it was killed, or the machine went down."
    error = {"slug": f"driver-{ending.value}", "what": what}
    if ending is not Ending.VANISHED:
        return Exit(ending.value, code=-1, at=at, error=error)
    known = classify(FailureText())  # words for an end without words
    error["fix"] = known.fix.replace("NAME", pipeline_of(log.parent.name) if log else "NAME")
    return Exit(ending.value, code=-1, at=at, error=error, kind=known.kind, failure=known.slug)


def _exit_from_code(code: int, at: float, log: Path | None) -> Exit:
    last = process.last_line(log) if log else ""
    error = {
        "slug": "driver-died",
        "what": f"The driver exited with code {code} and wrote no exit.json.",
        "why": last or None,
        "where": str(log) if log else None,
        "fix": "Read the end of the driver's log." if log else None,
    }
    fingerprint = f"driver-died {code} {normalise(last)[:200]}"
    return Exit(Ending.FAILED, code or 1, at, error, kind="unknown", fingerprint=fingerprint)


def could_not_start(exc: OSError, at: float) -> Exit:
    """The operating system refused to start the driver. It may succeed later."""
    reason = f"{exc.strerror or exc}{f': {exc.filename}' if exc.filename else ''}"
    if exc.errno in _FULL:
        slug, reason, fix = "disk-full", f"disk full ({reason})", "Free some disk space."
    else:
        slug, fix = "spawn", "Check the memory, process and file limits of this machine."
    error = {"slug": slug, "what": f"The driver could not be started: {reason}.", "fix": fix}
    return Exit(Ending.REFUSED, code=3, at=at, error=error, kind="retry", failure=slug)
