"""Facts about one pipeline, and an engine on a clock of the test's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.alerts import engine
from headrace.alerts.rules import table
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.rules import (
    Facts,
    PipelineFacts,
    ProjectFacts,
    QueryFacts,
    Rule,
    RunFacts,
)
from headrace.model.status import QueryStatus

T0 = 1_900_000_000.0  # 2030-03-17 17:46:40Z
WELL = RunFacts(is_well=True, has_worked=True)


def query(name: str = "totals", **status: Any) -> QueryFacts:
    facts = {
        name: status.pop(name)
        for name in ("trigger_s", "batch_ms", "rows_at", "begun_at", "numbers")
        if name in status
    }
    return QueryFacts(QueryStatus(name, "running", **status), **facts)


def pipeline(*queries: QueryFacts, run: RunFacts = WELL, **facts: Any) -> PipelineFacts:
    made = PipelineFacts("orders", T0, "running", is_live=True, run=run, queries=queries)
    return replace(made, **facts)


def lag(
    waits_s: float = 0.0, kept_s: float = 604_800.0, records: int = 10, **more: Any
) -> QueryLag:
    low = more.pop("low", 0)
    one = PartitionLag(
        "t", 0, next=100, low=low, high=100 + records, waits_s=waits_s, kept_s=kept_s
    )
    return QueryLag("orders", "totals", T0, (one,), **more)


@dataclass
class RuleBench:
    rules: Mapping[str, Rule] = field(default_factory=lambda: dict(table.RULES))
    now: float = T0
    open: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    alerts: dict[str, Any] = field(default_factory=dict)  # as they were opened last
    remembered: dict[str, engine.Remembered] = field(default_factory=dict)  # by pipeline

    def see(self, facts: Facts, seconds: float = 5.0) -> list[str]:
        """One evaluation after this time; what it opened (+) and resolved (-)."""
        self.now += seconds
        facts = replace(facts, at=self.now)
        seen = engine.evaluate(self.rules, facts)
        mine = engine.by_pipeline(self.open).get(seen.pipeline, {})
        before = self.remembered.get(seen.pipeline, engine.Remembered())
        done = engine.decide(seen, self.rules, mine, before, self.now)
        self.remembered[seen.pipeline] = done.memory
        said = []
        for alert in done.opened:
            said.append(f"{'^' if alert.key in self.open else '+'}{alert.key}")
            self.open[alert.key], self.alerts[alert.key] = alert.severity, alert
        for key in done.resolved:
            said.append(f"-{key}")
            del self.open[key]
        self.log += said
        return said

    def stay(self, facts: Facts, for_s: float, every_s: float = 5.0) -> list[str]:
        """The same facts for a while."""
        return [one for _ in range(int(for_s / every_s)) for one in self.see(facts, every_s)]

    def restart(self) -> None:
        """Of the supervisor: only the store remembers."""
        self.remembered = {}


PROJECT = ProjectFacts(T0)
