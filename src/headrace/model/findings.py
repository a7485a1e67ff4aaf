"""A finding: something is wrong with a query although nothing has failed.

Made by `health/conditions/`, carried by `status`, shown by the command line, the page and the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.runs import Jsonable


class Severity(StrEnum):
    PROBLEM = "problem"  # results are wrong, missing or late: the query is degraded
    WARNING = "warning"  # they will be, if nothing changes


@dataclass(frozen=True, slots=True)
class Finding(Jsonable):
    """`what` is one sentence without the query's name; `since` is when it began."""

    slug: str
    what: str
    cause: str | None = None
    fix: str | None = None
    severity: str = Severity.PROBLEM.value
    query: str | None = None
    since: float | None = None
    where: str | None = None  # file and line, a folder, an address

    @property
    def is_problem(self) -> bool:
        return self.severity == Severity.PROBLEM


def problems(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.is_problem)
