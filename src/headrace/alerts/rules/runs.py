"""Rules about the runs of a pipeline: it failed, keeps failing, or needs a person. Pure.

These open at the first evaluation: `supervisor/rule_watch.py` evaluates a pipeline at once when its
state changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.alerts.rules.words import sentence, words
from headrace.model.rules import Hit, PipelineFacts, RunFacts, Unknown
from headrace.model.times import span

RECOVERS = "Headrace recovers on its own once the cause is gone."
REPLACED = ("restarting", "run-failed", "stalled")  # by the two that need a person
BY_PERSON = ("needs-attention", "restarts-off")


def needs_attention(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit]:
    if facts.run.attention is not None and not facts.run.is_limit_used_up:
        yield _for_person(facts, f"{facts.name} needs attention: {facts.run.attention}")


def restarts_off(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit]:
    if facts.run.attention is not None and facts.run.is_limit_used_up:
        yield _for_person(facts, f"{facts.name} is not restarted: {facts.run.attention}")


def _for_person(facts: PipelineFacts, title: str) -> Hit:
    failed = facts.run.failed
    doing = "Does not restart the pipeline."
    fix = _fix(facts.run, f"Then run `headrace start {facts.name}`.")
    cause = sentence(failed.cause) if failed else None
    since = failed.at if failed else None
    return Hit(title, words=words(facts, doing, fix, cause=cause), since=since)


def restarting(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """It fails again and again: several times in a row, or often after it has worked.
    Once it has opened, it ends when the pipeline works again, not when it starts."""
    run, failed = facts.run, facts.run.failed
    is_in_a_row = run.failures >= limits["failures"]
    is_often = run.relapses_per_hour >= limits["relapses_per_hour"]
    is_urgent = failed is not None and failed.is_urgent and run.failures > 0
    if failed is None or not run.is_retrying or not (is_in_a_row or is_often or is_urgent):
        # Between two failures it runs, but has not recovered.
        if not run.is_well or is_often:
            yield Unknown()
        return
    count = f"{run.failures} failures in a row"
    if is_often and not is_in_a_row:
        count = f"it worked and failed {run.relapses_per_hour} times within an hour"
    doing = f"Restarts the pipeline ({count})."
    said = words(facts, doing, _fix(run, RECOVERS), cause=sentence(failed.cause))
    yield Hit(f"{facts.name} keeps restarting: {failed.cause}", words=said, since=failed.at)


def run_failed(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """Each failure is an alert of its own; it ends when the next run has worked."""
    run, failed = facts.run, facts.run.failed
    if failed is None or run.has_worked:
        return
    doing = "Restarts the pipeline." if run.is_retrying else "Has restarted the pipeline."
    said = words(facts, doing, _fix(run, RECOVERS), cause=sentence(failed.cause))
    title = f"{facts.name} failed: {failed.cause}"
    yield Hit(title, words=said, since=failed.at, part=failed.run)


def stalled(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """Alive, and no progress: its source does not answer, an idle input holds the watermark back,
    or a batch is stuck."""
    if not facts.is_live:
        yield Unknown()
        return
    stuck = {one.query: one for one in facts.run.stuck}
    for query in facts.queries:
        found = {finding.slug: finding for finding in query.status.findings}
        about = found.get("source-unanswered") or found.get("watermark-held")
        if about is not None:
            is_silent = about.slug == "source-unanswered"
            waited_s = facts.at - (about.since if about.since is not None else facts.at)
            if is_silent and waited_s < limits["source_silent"]:
                yield Unknown(query.name)
                continue
            doing = "Keeps asking the source." if is_silent else "Keeps the query running."
            said = words(facts, doing, about.fix or "", cause=about.cause, query=query.name)
            kind = "its source does not answer" if is_silent else "an idle input holds it back"
            title = f"{query.name} is stalled, because {kind}: {about.what}"
            yield Hit(title, query.name, said, since=about.since)
        elif (one := stuck.get(query.name)) is not None:
            doing = f"Restarts the pipeline after {span(one.kill_s)} without a batch."
            fix = "No action is needed unless it happens again."
            said = words(facts, doing, fix, cause="A batch is stuck.", query=query.name)
            title = f"{facts.name} is stalled: {one.what}"
            yield Hit(title, query.name, said, since=facts.at - one.for_s)
    if not facts.run.is_well:
        yield Unknown()  # it ends when the pipeline works again, not when it is restarted


def _fix(run: RunFacts, then: str) -> str:
    """The fix of the last failure, and what comes after it."""
    fix = run.failed.fix if run.failed and run.failed.fix else "Fix the cause"
    return f"{fix.rstrip('.')}. {then}"
