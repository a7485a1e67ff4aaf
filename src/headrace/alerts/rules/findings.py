"""Findings as rules: each slug of `health/conditions` is a rule. Pure.

The texts are those of the finding. `stalled` (in `runs`) covers the slugs of a query that makes no
progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headrace.alerts.rules import lag
from headrace.alerts.rules.words import KEEPS_RUNNING, words
from headrace.model.findings import Finding
from headrace.model.rules import Hit, PipelineFacts, QueryFacts

BEHIND = "falling-behind"


def rule_of(slug: str) -> Callable[[PipelineFacts, Mapping[str, float]], Iterator[Hit]]:
    """The condition: a query has a finding with this slug."""

    def evaluate(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit]:
        for query in facts.queries:
            found = [finding for finding in query.status.findings if finding.slug == slug]
            if found:
                yield _hit(facts, query, found)

    return evaluate


def _hit(facts: PipelineFacts, query: QueryFacts, found: list[Finding]) -> Hit:
    """One alert per query, whatever the number of fields or inputs concerned."""
    first = found[0]
    more = {"Also": " ".join(one.what for one in found[1:])}
    if first.slug == BEHIND:
        more["Forecast"] = lag.forecast(facts, query)
    said = words(facts, KEEPS_RUNNING, first.fix or "", cause=first.cause, query=query.name, **more)
    if first.where:
        said["Where"] = first.where
    known = [one.since for one in found if one.since is not None]
    return Hit(f"{query.name}: {first.what}", query.name, said, since=min(known, default=None))
