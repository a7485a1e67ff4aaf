"""A pipeline at a glance: severity, whether it keeps up, what failed. Pure.

For the first screen of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.health import judgement
from headrace.model.runs import Exit
from headrace.model.status import WORKING, PipelineStatus, QueryStatus, State
from headrace.model.times import span

# The worst first; the page chooses colours by these levels.
SEVERITY: Mapping[str, int] = {
    State.NEEDS_ATTENTION: 5,
    State.STALLED: 4,
    State.WAITING: 3,
    State.DEGRADED: 3,
    State.CATCHING_UP: 2,
    State.STARTING: 1,
    State.STOPPING: 1,
    State.RUNNING: 0,
    State.FINISHED: 0,
    State.STOPPED: -1,
}


def severity(status: PipelineStatus) -> int:
    """A missed freshness target is as bad as being behind: a result is late."""
    level = SEVERITY.get(status.state, 5)
    is_broken = any(query.broken_promise for query in status.queries)
    return max(level, 2) if is_broken and level >= 0 else level


def pace(status: PipelineStatus, input_rate: float) -> str:
    """Whether it keeps up, as text. `input_rate` is that of its sources: several of its queries
    may read the same one."""
    if status.state not in WORKING:
        return ""
    broken = [f"{q.name}: {q.broken_promise}" for q in status.queries if q.broken_promise]
    behind = [q for q in status.queries if is_behind(q)]
    if behind:
        rows = sum(q.lag_rows or 0 for q in behind)
        seconds = max(q.lag_seconds or 0.0 for q in behind)
        far = f"{span(seconds)} " if seconds else f"{rows:,} rows " if rows else ""
        broken.insert(0, f"{far}behind in {', '.join(q.name for q in behind)}")
    if broken:
        return "; ".join(broken)
    return (
        f"keeping up with {input_rate:,.0f} rows/s" if input_rate else "keeping up; no data waiting"
    )


def is_behind(query: QueryStatus) -> bool:
    is_falling = any(finding.slug == "falling-behind" for finding in query.findings)
    return is_falling or query.state == State.CATCHING_UP


def failure(ended: Exit | None) -> dict[str, Any]:
    """The error of a run that failed: what, why, where, fix; or how it ended, if that is all."""
    if ended is None:
        return {"what": "The run ended, and no reason was recorded."}
    error, cause = ended.error or {}, judgement.cause(ended)
    return {
        "ending": ended.ending,
        "slug": ended.failure or error.get("slug"),
        "what": error.get("what") or f"{cause[0].upper()}{cause[1:]}.",
        **{name: error.get(name) for name in ("why", "where", "fix")},
        "query": ended.query,
        "batch": ended.batch,
    }
