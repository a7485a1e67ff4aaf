"""All conditions, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.health.conditions import (
    changed_files,
    falling_behind,
    future_times,
    late_rows,
    lookup_misses,
    null_fields,
    quarantine,
    source_outage,
    state_growth,
    watermark_held,
)
from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding, Severity
from headrace.model.limits import HealthLimits
from headrace.model.pipeline import Definition

Condition = Callable[[RunView, QueryView, HealthLimits], Iterable[Finding]]

CONDITIONS: tuple[Condition, ...] = (
    source_outage.find,
    changed_files.find,
    quarantine.find,
    future_times.find,
    late_rows.find,
    null_fields.find,
    lookup_misses.find,
    watermark_held.find,
    falling_behind.find,
    state_growth.find,
)


def by_query(view: RunView, limits: HealthLimits) -> dict[str, tuple[Finding, ...]]:
    found = {name: of_query(view, query, limits) for name, query in view.queries.items()}
    return {name: findings for name, findings in found.items() if findings}


def of_query(view: RunView, query: QueryView, limits: HealthLimits) -> tuple[Finding, ...]:
    if query.stopped is not None or query.terminated_at is not None:
        return ()
    found = [finding for condition in CONDITIONS for finding in condition(view, query, limits)]
    return tuple(replace(finding, query=finding.query or query.name) for finding in found)


def from_warnings(definition: Definition) -> tuple[Finding, ...]:
    """The warnings of `check` about a deployed definition."""
    places = {query.place: query.name for query in definition.queries}
    return tuple(
        Finding(
            slug=str(warning.get("slug")),
            what=str(warning.get("what")),
            cause=warning.get("why"),
            fix=warning.get("fix"),
            severity=Severity.WARNING.value,
            query=places.get(str(warning.get("where"))),
            where=warning.get("where"),
        )
        for warning in definition.warnings
    )
