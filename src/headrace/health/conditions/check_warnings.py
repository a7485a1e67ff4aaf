"""Warnings of `check` about the deployed definition."""

from __future__ import annotations

from headrace.model.findings import Finding, Severity
from headrace.model.pipeline import Definition


def find(definition: Definition) -> tuple[Finding, ...]:
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
