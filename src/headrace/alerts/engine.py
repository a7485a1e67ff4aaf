"""Decides which alerts of rules to open and to resolve. Pure.

`evaluate` judges the facts of one subject (a pipeline, or the project); `decide` compares the
result with the alerts that are open. Invariants: an alert opens once and is resolved once; facts
that are unknown, or muted by another alert, neither open nor resolve one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from headrace.alerts.rules import runs, table
from headrace.model.alerts import OpenAlert, is_worse
from headrace.model.rules import About, Facts, Hit, PipelineFacts, Rule, Unknown
from headrace.model.times import clock

ALL = ""  # queries, or rules
STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds: a hit, with its rule and the key of its alert."""

    rule: Rule
    hit: Hit
    pipeline: str

    @property
    def key(self) -> str:
        """RULE:PIPELINE:QUERY:PART, without empty ends."""
        names = (self.rule.name, self.pipeline, self.hit.query or "", self.hit.part)
        return ":".join(names).rstrip(":")

    def alert(self) -> OpenAlert:
        rule, hit, title = self.rule, self.hit, self.hit.title.rstrip(".")
        if hit.since is not None and " since " not in title:
            title = f"{title} (since {clock(hit.since)})"
        severity = rule.severity if rule.is_severity_set else hit.severity or rule.severity
        return OpenAlert(
            self.key, rule.name, self.pipeline, title, severity, hit.query, dict(hit.words)
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What holds for one subject. `unknown` are (rule, query), with ALL for any. `is_over`: nothing
    is wrong with what a person has stopped."""

    pipeline: str
    holding: Mapping[str, Condition] = field(default_factory=dict)
    unknown: frozenset[tuple[str, str]] = frozenset()
    replaced: frozenset[str] = frozenset()  # rules whose alerts another one replaces
    is_over: bool = False

    def is_unknown(self, rule: str, query: str) -> bool:
        return not self.unknown.isdisjoint(
            {(rule, ALL), (rule, query), (ALL, query)} - {(ALL, ALL)}
        )


@dataclass(frozen=True, slots=True)
class Remembered:
    """Since when conditions have held (steady time), and when those of open alerts last did."""

    pending: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    opened: tuple[OpenAlert, ...]
    resolved: tuple[str, ...]
    memory: Remembered


def evaluate(rules: Mapping[str, Rule], facts: Facts) -> Evaluation:
    """Of one pipeline, or of the project."""
    name = facts.name if isinstance(facts, PipelineFacts) else ""
    if isinstance(facts, PipelineFacts) and facts.is_over:
        return Evaluation(name, is_over=True)
    holding: dict[str, Condition] = {}
    unknown: set[tuple[str, str]] = set()
    for rule in rules.values():
        if not rule.enabled or not _is_about(rule, facts):
            continue
        if rule.needs_run and isinstance(facts, PipelineFacts) and not facts.is_live:
            unknown.add((rule.name, ALL))  # it is down: there is an alert about that, if needed
            continue
        for found in rule.evaluate(facts, rule.settings()):
            if not _takes_query(rule, found.query):
                continue
            if isinstance(found, Unknown):
                unknown.add((rule.name, found.query or ALL))
            else:
                condition = Condition(rule, found, name)
                holding[condition.key] = condition
    return _inhibit(Evaluation(name, holding, frozenset(unknown)))


def _is_about(rule: Rule, facts: Facts) -> bool:
    if not isinstance(facts, PipelineFacts):
        return rule.about is About.PROJECT
    return rule.about is not About.PROJECT and (
        not rule.pipelines or any(fnmatchcase(facts.name, glob) for glob in rule.pipelines)
    )


def _takes_query(rule: Rule, query: str | None) -> bool:
    return not rule.queries or (
        query is not None and any(fnmatchcase(query, glob) for glob in rule.queries)
    )


def _inhibit(seen: Evaluation) -> Evaluation:
    """A pipeline that needs a person has no other alert about its runs, and a stalled query has
    only that one."""
    by_rule = {condition.rule.name for condition in seen.holding.values()}
    replaced = frozenset(runs.REPLACED if by_rule & set(runs.BY_PERSON) else ())
    holding = {k: one for k, one in seen.holding.items() if one.rule.name not in replaced}
    stalled = {one.hit.query for one in holding.values() if one.rule.name == STALLED} - {None}
    holding = {
        key: one
        for key, one in holding.items()
        if one.rule.name == STALLED or one.hit.query not in stalled
    }
    muted = {(ALL, query) for query in stalled if query}
    return replace(seen, holding=holding, unknown=seen.unknown | muted, replaced=replaced)


def decide(
    seen: Evaluation,
    rules: Mapping[str, Rule],
    open_: Mapping[str, str],
    memory: Remembered,
    now: float,
) -> Changes:
    """`open_`: the severity of each open alert of this subject, by key. `now` is steady time."""
    pending: dict[str, float] = {}
    held: dict[str, float] = {}
    opened: list[OpenAlert] = []
    for key, condition in seen.holding.items():
        alert = condition.alert()
        if key in open_:
            held[key] = now
            if is_worse(alert.severity, open_[key]):
                opened.append(alert)
            continue
        pending[key] = memory.pending.get(key, now)
        if now - pending[key] >= condition.rule.for_s:
            held[key] = now
            opened.append(alert)
    resolved = []
    for key in open_.keys() - seen.holding.keys():
        rule = rules.get(key.partition(":")[0])
        is_known = rule is not None and rule.enabled
        if is_known and not seen.is_over and _is_kept_open(key, seen):
            held[key] = now
            continue
        held[key] = memory.held.get(key, now)
        keep_s = rule.keep_firing_for_s if rule is not None else 0.0
        is_at_once = not is_known or seen.is_over or key.partition(":")[0] in seen.replaced
        if is_at_once or now - held[key] >= keep_s:
            del held[key]
            resolved.append(key)
    # Unknown for a moment: a pending condition goes on.
    pending |= {
        key: since
        for key, since in memory.pending.items()
        if key not in pending and key not in open_ and _is_kept_open(key, seen)
    }
    return Changes(tuple(opened), tuple(sorted(resolved)), Remembered(pending, held))


def _is_kept_open(key: str, seen: Evaluation) -> bool:
    rule, _, query, _ = split(key)
    return rule not in seen.replaced and seen.is_unknown(rule, query)


def split(key: str) -> tuple[str, str, str, str]:
    """Rule, pipeline, query and part of the key of a rule's alert."""
    rule, pipeline, query, part = (*key.split(":", 3), "", "", "")[:4]
    return rule, pipeline, query, part


def by_pipeline(open_: Mapping[str, str]) -> Mapping[str, dict[str, str]]:
    """The open alerts of rules by pipeline; "": of the project."""
    found: dict[str, dict[str, str]] = {}
    for key, severity in open_.items():
        rule, pipeline, _, _ = split(key)
        if rule not in table.FIXED:
            found.setdefault(pipeline, {})[key] = severity
    return found


def over(open_: Mapping[str, str], pipelines: Iterable[str]) -> list[str]:
    """Alerts of pipelines that no longer exist."""
    known = {"", *pipelines}
    return sorted(
        key for name, mine in by_pipeline(open_).items() if name not in known for key in mine
    )
