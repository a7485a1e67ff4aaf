"""The rules of a project as people see them: with the settings, limits as text, and problems."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headrace.alerts.rules import rule_settings, table
from headrace.alerts.rules.words import percent, size
from headrace.errors import ControlError
from headrace.model.rules import LimitKind, Rule
from headrace.model.times import span
from headrace.project.workspace import Workspace
from headrace.spelling import suggest
from headrace.state import sql_rules


@dataclass(frozen=True, slots=True)
class RuleRow:
    """`state`: on, off, or fixed, which settings cannot change. `limits` are texts by name."""

    name: str
    state: str
    severity: str
    about: str
    for_s: float
    keep_firing_for_s: float
    limits: dict[str, str]
    help: str
    when: str = ""
    problem: str = ""  # why its SQL fails

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find(work: Workspace, name: str | None = None) -> list[RuleRow]:
    """All rules, or the named one."""
    results = sql_rules.read(work.places)
    problems = {one.rule: one.problem or "" for one in results.values()}
    found = [
        _row(rule, problems.get(rule.name, ""))
        for rule in rule_settings.build(work.settings).values()
    ]
    found += [
        RuleRow(fixed, "fixed", severity, "", 0.0, 0.0, {}, help_)
        for fixed, (severity, help_) in table.FIXED.items()
    ]
    if name is None:
        return found
    names = [row.name for row in found]
    if name not in names:
        raise ControlError(
            f"Unknown rule {name!r}.",
            why=f"Known: {', '.join(names)}.",
            fix=suggest(name, names, "List the rules: headrace rules"),
            slug="unknown-rule",
        )
    return [row for row in found if row.name == name]


def _row(rule: Rule, problem: str) -> RuleRow:
    return RuleRow(
        rule.name,
        "on" if rule.enabled and _has_limit(rule) else "off",
        rule.severity,
        rule.about,
        rule.for_s,
        rule.keep_firing_for_s,
        {name: _as_text(rule.limits[name].kind, value) for name, value in rule.settings().items()},
        rule.help,
        rule.when,
        f"Problem: {problem}" if problem else "",
    )


def _has_limit(rule: Rule) -> bool:
    """A rule whose limits have no defaults does nothing until one is set."""
    return not rule.limits or bool(rule.settings())


def _as_text(kind: LimitKind, value: float) -> str:
    if kind is LimitKind.DURATION:
        return span(value)
    if kind is LimitKind.BYTES:
        return size(value)
    return percent(value) if kind is LimitKind.SHARE else f"{value:,g}"
