"""The rules of a project: those of Headrace as `[rules.NAME]` changes them, and the user's own.

Invariant: `build` reports all problems at once, each with its line; it connects to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from headrace.alerts.rules import expressions, table, user_rules
from headrace.config import Settings
from headrace.durations import parse_duration
from headrace.errors import ConfigError, Error, each_of, together
from headrace.model.alerts import SEVERITIES
from headrace.model.rules import About, Limit, LimitKind, Rule
from headrace.spelling import suggest

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,49}")
COMMON = ("enabled", "severity", "for", "keep_firing_for", "pipelines", "queries")
OWN = (*COMMON, "when", "sql", "every")
EVERY_FAILURE = "run-failed"
SQL_EVERY_S, SQL_EVERY_S_MIN = 30.0, 5.0


def build(settings: Settings) -> dict[str, Rule]:
    """All rules by name, also those that are switched off."""
    rules = dict(table.RULES)
    if settings.every_failure:
        rules[EVERY_FAILURE] = replace(rules[EVERY_FAILURE], enabled=True)
    problems: list[Error] = []
    for name, given in settings.rules.items():
        try:
            rules[name] = _build_rule(name, given, rules.get(name), settings)
        except Error as exc:
            problems += each_of(exc)
    if problems:
        raise together(problems)
    return rules


def check_names(settings: Settings, pipelines: Iterable[str]) -> None:
    """Raises if a rule names pipelines that do not exist, or a channel a rule."""
    known, rules = sorted(pipelines), [*table.names(), *settings.rules]
    problems: list[Error] = []
    for name, given in settings.rules.items():
        for glob in _texts(given.get("pipelines")):
            if known and not any(fnmatchcase(one, glob) for one in known):
                where = settings.place("rules", name, "pipelines")
                problems.append(_unknown("pipeline", glob, known, f"[rules.{name}]", where))
    for name, channel in settings.notify.items():
        for rule in _texts(channel.get("rules")):
            if rule not in rules:
                where = settings.place("notify", name, "rules")
                problems.append(_unknown("rule", rule, rules, f"[notify.{name}]", where))
    if problems:
        raise together(problems)


def sql_of(settings: Settings) -> dict[str, tuple[str, float]]:
    """The SQL of each rule that has one and is switched on, and how often it is evaluated."""
    found = {}
    for name, given in settings.rules.items():
        if isinstance(given.get("sql"), str) and given.get("enabled", True) is not False:
            every_s = parse_duration(given.get("every", SQL_EVERY_S))
            found[name] = (str(given["sql"]), max(SQL_EVERY_S_MIN, every_s))
    return found


def _build_rule(
    name: str, given: Mapping[str, Any], built_in: Rule | None, settings: Settings
) -> Rule:
    def where(key: str = "") -> str:
        return settings.place("rules", name, *([key] if key else []))

    problems: list[Error] = []

    def read(key: str, parse: Callable[[Any], Any], otherwise: Any) -> Any:
        if key not in given:
            return otherwise
        try:
            return parse(given[key])
        except ConfigError as exc:
            what, place = f"[rules.{name}] {key}: {exc.what}", where(key)
            problems.append(ConfigError(what, why=exc.why, where=place, fix=exc.fix, slug=exc.code))
            return otherwise

    rule = built_in or _own_rule(name, given, read, where)
    allowed = (*COMMON, *rule.limits) if built_in else OWN
    for key in given.keys() - set(allowed):
        problems.append(_unknown("setting", key, allowed, f"[rules.{name}]", where(key)))
    rule = replace(
        rule,
        enabled=read("enabled", _flag, True if "enabled" not in given and not built_in
                     else rule.enabled),
        severity=read("severity", _severity, rule.severity),
        is_severity_set="severity" in given,
        for_s=read("for", parse_duration, rule.for_s),
        keep_firing_for_s=read("keep_firing_for", parse_duration, rule.keep_firing_for_s),
        pipelines=read("pipelines", _list, ()),
        queries=read("queries", _list, ()),
        values={
            key: read(key, _parser_of(limit), None) for key, limit in rule.limits.items()
            if key in given
        },
    )  # fmt: skip
    if problems:
        raise together(problems)
    return rule


def _own_rule(
    name: str,
    given: Mapping[str, Any],
    read: Callable[[str, Callable[[Any], Any], Any], Any],
    where: Callable[..., str],
) -> Rule:
    if not NAME.fullmatch(name) or name in table.FIXED:
        why = "A name has letters, digits, - and _, at most 50 in all."
        if name in table.FIXED:
            why = "This rule of Headrace has no settings."
        raise ConfigError(
            f"[rules.{name}]: the name cannot be used.",
            why=why,
            where=where(),
            fix="Choose another name.",
            slug="unknown-rule",
        )
    texts = [key for key in ("when", "sql") if isinstance(given.get(key), str)]
    if len(texts) != 1:
        known = list(table.RULES)
        raise ConfigError(
            f"[rules.{name}] is no rule of Headrace, and has "
            + ("both when and sql." if texts else "neither when nor sql."),
            why=f"Rules of Headrace: {', '.join(known)}.",
            where=where(),
            fix=suggest(name, known, 'Add a condition: when = "lag_seconds > 300".'),
            slug="unknown-rule",
        )
    text = str(given[texts[0]])
    base = Rule(name, f"Your rule: {text}", About.PROJECT, "warning", user_rules.of_sql(name))
    base = replace(base, needs_run=False, when=text)
    if texts == ["sql"]:
        read("every", parse_duration, SQL_EVERY_S)
        return base
    condition = read("when", expressions.parse, None)
    if condition is None:
        return base
    metrics = list(expressions.values(condition))
    about = expressions.about(condition)
    if about is not About.PROJECT and any(m.metric.about is About.PROJECT for m in metrics):
        read("when", _refuse_mixed, None)
    return replace(
        base,
        about=about,
        evaluate=user_rules.of_condition(name, text, condition),
        needs_run=any(value.metric.needs_run for value in metrics),
        windows=tuple((v.metric.name, v.window_s) for v in metrics if v.function),
    )


def _refuse_mixed(text: Any) -> None:
    raise ConfigError(
        f"Invalid condition: {text!r}.",
        why="It compares metrics of the machine with metrics of a pipeline.",
        fix="Write two rules.",
        slug="bad-condition",
    )


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"Invalid value: {value!r}.", why="It must be true or false.")
    return value


def _severity(value: Any) -> str:
    if value not in SEVERITIES:
        raise ConfigError(
            f"Unknown severity {value!r}.",
            why=f"Allowed: {', '.join(SEVERITIES)}.",
            fix=suggest(str(value), SEVERITIES, "Choose one of them."),
        )
    return str(value)


def _list(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ConfigError(f"Invalid value: {value!r}.", why="It must be a list of strings.")
    return tuple(value)


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _parser_of(limit: Limit) -> Callable[[Any], float]:
    if limit.kind is LimitKind.DURATION:
        return parse_duration
    units = expressions.SIZES if limit.kind is LimitKind.BYTES else {}
    units = {"%": 0.01} if limit.kind is LimitKind.SHARE else units

    def parse(value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
        found = re.fullmatch(r"\s*(\d[\d_]*(?:\.\d+)?)\s*(\S+)\s*", str(value))
        if isinstance(value, str) and found and found[2].lower() in units:
            return float(found[1].replace("_", "")) * units[found[2].lower()]
        example = {LimitKind.BYTES: '"2 GB"', LimitKind.SHARE: '"5 %" or 0.05'}
        raise ConfigError(
            f"Invalid {limit.kind}: {value!r}.",
            why=f"Write, for example, {example.get(limit.kind, '1000')}.",
        )

    return parse


def _unknown(
    what: str, name: str, known: Iterable[str], title: str, where: str | None
) -> ConfigError:
    names = list(known)
    return ConfigError(
        f"{title}: unknown {what} {name!r}.",
        why=f"Known: {', '.join(names[:40])}.",
        where=where,
        fix=suggest(name, names, "Correct the name, or remove it."),
        slug=f"unknown-{what}",
    )
