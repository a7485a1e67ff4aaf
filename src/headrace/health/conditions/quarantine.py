"""The quarantine takes many or all records of a view: the format of its input has changed."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.health.conditions import shares
from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits

MOST = 0.5  # a problem, whatever the past
JUMP = 0.1


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    if not shares.is_ever(query.series, "quarantine.bad", "quarantine.in", JUMP):
        return
    shift = shares.shift(query.series, "quarantine.bad", "quarantine.in", limits)
    if shift is None or not (shift.share >= MOST or shift.is_jump(JUMP)):
        return
    of, _, _ = query.name.partition(".")
    yield Finding(
        slug="many-quarantined",
        what=f"{shares.percent(shift.share)} of the records read by {of} have been quarantined "
        f"{shift.in_words}.",
        cause="The producer changed the format of its records, or the schema in the pipeline "
        "does not match the records.",
        fix="Run `headrace quarantine list` to see the records and the reason for each, then "
        "correct the schema or the producer. Nothing is lost: the quarantine keeps the records.",
        since=shift.since,
        where=query.place,
    )
