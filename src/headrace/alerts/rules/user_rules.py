"""Rules that a user adds in headrace.toml: a condition over metrics, or SQL over live tables. Pure.

The relay evaluates the SQL (`relay/sql_rules.py`); here are only its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headrace.alerts.rules import expressions
from headrace.alerts.rules.expressions import Condition, Value
from headrace.alerts.rules.metrics import Unit
from headrace.alerts.rules.words import percent, size, words
from headrace.model.rules import (
    About,
    Facts,
    Hit,
    PipelineFacts,
    ProjectFacts,
    QueryFacts,
    Unknown,
)
from headrace.model.times import span

Evaluate = Callable[[Facts, Mapping[str, float]], Iterator[Hit | Unknown]]
OLD_S = 60.0  # on top of two intervals: then the relay does not evaluate the SQL
FIX = "See the rule [rules.{name}] in headrace.toml."


def of_condition(name: str, text: str, condition: Condition) -> Evaluate:
    about = expressions.about(condition)

    def evaluate(facts: Facts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
        queries: tuple[QueryFacts | None, ...] = (None,)
        if about is About.QUERY and isinstance(facts, PipelineFacts):
            queries = facts.queries
        for query in queries:
            named = query.name if query is not None else None
            holds = condition.holds(facts, query)
            if holds is None:
                yield Unknown(named)
            elif holds:
                yield _hit(name, text, condition, facts, query)

    return evaluate


def _hit(name: str, text: str, condition: Condition, facts: Facts, query: QueryFacts | None) -> Hit:
    found = {
        _label(value): _amount(value, value.read(facts, query))
        for value in expressions.values(condition)
    }
    now = ", ".join(f"{label} is {amount}" for label, amount in found.items())
    fix = FIX.format(name=name)
    doing = "Sends this alert; it takes no action."
    if isinstance(facts, PipelineFacts):
        subject = query.name if query is not None else facts.name
        said = words(
            facts, doing, fix, query=query.name if query else None, cause=f"The rule is: {text}."
        )
        return Hit(f"{subject}: {now} ({name})", query.name if query else None, said)
    said = {"Headrace": doing, "Cause": f"The rule is: {text}.", "What to do": fix}
    return Hit(f"{now} ({name})", words=said)


def _label(value: Value) -> str:
    if not value.function:
        return value.metric.name
    return f"{value.function}({value.metric.name}, {span(value.window_s)})"


def _amount(value: Value, read: float | None) -> str:
    unit = value.metric.unit
    if read is None:
        return "unknown"
    if unit is Unit.SECONDS:
        return span(read)
    if unit is Unit.MILLISECONDS:
        return span(read / 1000)
    if unit is Unit.BYTES:
        return size(read)
    if unit is Unit.SHARE:
        return percent(read)
    return f"{read:,.6g}{'' if unit is Unit.COUNT else f' {unit}'}"


def of_sql(name: str) -> Evaluate:
    """Holds while the SQL returns rows. Unknown while it fails, or is not evaluated."""

    def evaluate(facts: Facts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
        found = facts.sql.get(name) if isinstance(facts, ProjectFacts) else None
        if found is None or found.problem or facts.at - found.at > OLD_S + 2 * found.every_s:
            yield Unknown()
        elif found.rows:
            rows = f"{found.rows:,}{'+' if found.is_cut else ''} row{'s' * (found.rows != 1)}"
            said = {
                "Headrace": "Sends this alert; it takes no action.",
                "Row": found.first,
                "What to do": FIX.format(name=name),
            }
            title = f"{name}: the SQL returns {rows}; the first: {found.first}"
            yield Hit(title[:500], words=said, since=found.since)

    return evaluate
