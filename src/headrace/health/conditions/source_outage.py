"""A source does not answer: nothing is read, and the lag is unknown."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits
from headrace.model.times import clock


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    outage = query.outage
    if outage is None:
        return
    yield Finding(
        slug="source-unanswered",
        what=f"The source has not answered since {clock(outage.since)}: {outage.error}.",
        cause=_cause(outage.error),
        fix="Check that the broker is running, that its address is correct, and that no "
        "firewall blocks it. When the broker answers again, the query continues from its last "
        "position and reads the records that are still in the topic."
        if outage.addresses
        else "Check that the source system is running and reachable from this machine.",
        since=outage.since,
        where=", ".join(outage.addresses) or outage.source,
    )


def _cause(error: str) -> str:
    if "connection refused" in error:
        return "Nothing is listening at that address: the broker is down, or the port is wrong."
    if "no such host" in error:
        return "The host name is wrong, or DNS does not answer."
    if "accepts connections" in error:
        return "The broker hangs or is overloaded, or its listener uses a different protocol (TLS)."
    if "no connection within" in error:
        return "The machine is down, or a firewall drops the packets."
    return "The source system is down, overloaded, or not reachable from this machine."
