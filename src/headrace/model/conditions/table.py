"""All conditions, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from headrace.model.conditions import (
    behind,
    future,
    growth,
    held,
    inputs,
    late,
    lookups,
    nulls,
    quarantined,
    unanswered,
)
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits
from headrace.model.runview import QueryView, RunView

Condition = Callable[[RunView, QueryView, HealthLimits], Iterable[Finding]]

CONDITIONS: tuple[Condition, ...] = (
    unanswered.find,
    inputs.find,
    quarantined.find,
    future.find,
    late.find,
    nulls.find,
    lookups.find,
    held.find,
    behind.find,
    growth.find,
)


def by_query(view: RunView, limits: HealthLimits) -> dict[str, tuple[Finding, ...]]:
    """What is wrong with the queries of a live run, though they run."""
    found = {name: _findings(view, query, limits) for name, query in view.queries.items()}
    return {name: findings for name, findings in found.items() if findings}


def _findings(view: RunView, query: QueryView, limits: HealthLimits) -> tuple[Finding, ...]:
    if query.stopped is not None or query.terminated_at is not None:
        return ()
    found = [one for condition in CONDITIONS for one in condition(view, query, limits)]
    return tuple(replace(one, query=one.query or query.name) for one in found)
