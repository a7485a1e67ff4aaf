"""`wait`: look until a pipeline or a query is as wanted, or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.errors import Error
from headrace.model.status import WORKING, PipelineStatus, QueryStatus, State
from headrace.project import reading
from headrace.project.workspace import Workspace, known_query

POLL_S = 0.25
_OVER = (State.STOPPED, State.FINISHED, State.NEEDS_ATTENTION)


def wait(work: Workspace, name: str, until: str, timeout_s: float) -> PipelineStatus:
    pipeline, query = known_query(work, name, reading.queries(work))
    is_there = _CONDITIONS[until]
    deadline = time.monotonic() + timeout_s
    while True:
        seen = reading.status_of(work, pipeline)
        if seen is not None and is_there(seen, _concerned(seen, query)):
            return seen
        if time.monotonic() >= deadline:
            raise _too_late(name, pipeline, until, timeout_s, seen)
        time.sleep(POLL_S)


def _concerned(seen: PipelineStatus, query: str | None) -> tuple[QueryStatus, ...]:
    return tuple(item for item in seen.queries if query in (None, item.name))


def _is_running(seen: PipelineStatus, queries: tuple[QueryStatus, ...]) -> bool:
    """The pipeline as a whole, or the one query that was named."""
    is_whole = queries == seen.queries
    states = [seen.state] if is_whole else [item.state for item in queries]
    return bool(states) and all(state in WORKING for state in states)


def _is_caught_up(seen: PipelineStatus, queries: tuple[QueryStatus, ...]) -> bool:
    """Finished; or every query runs, has looked at its source, and found nothing more there."""
    if seen.state == State.FINISHED:
        return True
    return bool(queries) and all(
        item.state in (State.RUNNING, State.DEGRADED)
        and item.data_available is False
        and not item.lag_rows
        and not item.is_lag_unknown
        for item in queries
    )


def _is_stopped(seen: PipelineStatus, queries: tuple[QueryStatus, ...]) -> bool:
    return seen.state in _OVER


_CONDITIONS: dict[str, Callable[[PipelineStatus, tuple[QueryStatus, ...]], bool]] = {
    "running": _is_running,
    "caught-up": _is_caught_up,
    "stopped": _is_stopped,
}


def _too_late(
    name: str, pipeline: str, until: str, timeout_s: float, seen: PipelineStatus | None
) -> Error:
    instead = f"It is {seen.state}: {seen.why}" if seen else "It was never deployed"
    if seen and seen.queries:
        instead += "; " + ", ".join(f"{query.name} {query.state}" for query in seen.queries)
    return Error(
        f'"{name}" was not {until} within {timeout_s:g} s.',
        why=f"{instead}.",
        fix=f"headrace why {pipeline}, or wait longer: --timeout {max(2 * timeout_s, 60):g}s",
        slug="wait-timeout",
    )
