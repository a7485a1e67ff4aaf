"""What is wrong with a pipeline that has not failed: slow, late, silent, stalled. Pure.

`health` finds and judges; here its results are put in order, the most likely cause first, with what
Headrace does about each of them and what a person should do, as notices have it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.findings import Finding
from headrace.model.runs import Jsonable
from headrace.model.status import WORKING, PipelineStatus, QueryStatus, State
from headrace.model.times import span

# Findings that explain why nothing is written, or why it is written late; the first explain most.
_DELAYS = (
    "source-unanswered", "input-vanished", "watermark-in-future", "watermark-held",
    "falling-behind", "state-grows",
)  # fmt: skip
_SILENT_S = 300.0  # a query whose sources have had no new rows for this long


@dataclass(frozen=True, slots=True)
class Trouble(Jsonable):
    """`headrace` is what Headrace does about it, `fix` what a person should do."""

    slug: str
    severity: str  # problem | warning | note
    what: str
    cause: str | None = None
    where: str | None = None
    headrace: str | None = None
    fix: str | None = None
    query: str | None = None
    since: float | None = None


def find(status: PipelineStatus, now: float) -> tuple[Trouble, ...]:
    """The most likely cause of the state first, its symptoms next, then everything else."""
    is_delayed = status.state in (State.STALLED, State.CATCHING_UP) or any(
        query.broken_promise for query in status.queries
    )
    findings = sorted(status.all_findings(), key=lambda one: _rank(one, is_delayed))
    causes = [one for one in findings if one.is_problem or (is_delayed and one.slug in _DELAYS)]
    rest = [one for one in findings if one not in causes]
    return (
        *map(_from_finding, causes),
        *_symptoms(status, causes, now),
        *map(_from_finding, rest),
    )


def _rank(finding: Finding, is_delayed: bool) -> tuple[bool, int]:
    explains = is_delayed and finding.slug in _DELAYS
    order = _DELAYS.index(finding.slug) if explains else len(_DELAYS)
    return not (finding.is_problem or explains), order


def _from_finding(found: Finding) -> Trouble:
    doing = "Waits: the query continues when the source answers."
    return Trouble(
        found.slug, found.severity, found.what, found.cause, found.where,
        doing if found.slug == "source-unanswered" else None, found.fix, found.query, found.since,
    )  # fmt: skip


def _symptoms(status: PipelineStatus, causes: list[Finding], now: float) -> list[Trouble]:
    explained = {cause.query for cause in causes if cause.slug in _DELAYS}
    troubles: list[Trouble] = []
    quiet: list[Trouble] = []
    if status.state == State.STALLED and not explained:
        troubles.append(_stall(status))
    for query in status.queries:
        is_explained = query.name in explained
        if query.state == State.CATCHING_UP and not is_explained:
            troubles.append(_backlog(query))
        if query.broken_promise:
            troubles.append(_late(query, is_explained))
        if status.state in WORKING and not is_explained:
            quiet += _silence(query, now)
    return [*troubles, *quiet]


def _stall(status: PipelineStatus) -> Trouble:
    return Trouble(
        "stalled",
        "problem",
        status.why,
        cause="A batch hangs or takes much longer than usual, or a function waits for a service "
        "that does not answer.",
        headrace="Saves a thread dump and restarts the pipeline if it still makes no progress.",
        fix="No action is needed unless it happens again. Then see `headrace logs "
        f"{status.name}`, and make batches smaller (max_files, max_rows).",
    )


def _backlog(query: QueryStatus) -> Trouble:
    return Trouble(
        "catching-up",
        "note",
        query.message or "It is working through a backlog.",
        cause="Rows arrived while the pipeline was down, or more rows arrive than usual.",
        headrace="Processes the backlog at full speed, and reports it if rows arrive faster than "
        "the query processes them.",
        fix="No action is needed while the backlog shrinks (`headrace lag`).",
        query=query.name,
    )


def _late(query: QueryStatus, is_explained: bool) -> Trouble:
    cause = "Its batches start too rarely or take too long for this target."
    fix = (
        "Use a shorter `every`, more cores, or fewer rows per batch (max_files, max_rows), or set "
        "a longer `fresh_within`."
    )
    if is_explained:
        cause, fix = "The problem above delays this query.", "Follow the advice above."
    elif query.state == State.CATCHING_UP:
        cause = "The query is working through a backlog."
    return Trouble(
        "freshness",
        "problem",
        f"missed freshness target: {query.broken_promise}",
        cause=cause,
        headrace="Keeps watching it; a missed freshness target alone does not cause a restart.",
        fix=fix,
        query=query.name,
    )


def _silence(query: QueryStatus, now: float) -> list[Trouble]:
    """Of a query that works, and whose sources have nothing new."""
    is_waiting = query.data_available is False and not query.trigger_active
    if not is_waiting or query.newest_at is None or now - query.newest_at < _SILENT_S:
        return []
    quiet = Trouble(
        "no-new-rows",
        "note",
        f"no new rows for {span(now - query.newest_at)}.",
        cause="The query has processed everything that its sources have.",
        headrace="Waits: the query processes new rows as soon as they arrive.",
        fix="If rows should arrive, check the program that writes to the source.",
        query=query.name,
        since=query.newest_at,
    )
    return [quiet]
