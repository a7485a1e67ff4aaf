"""Channels: `[notify.NAME]` in headrace.toml, and which alerts each of them gets.

Secrets stay references until a notifier sends. Invariant: building a channel opens no connection.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from typing import Any

from headrace.alerts.notifiers.heartbeat import Heartbeat
from headrace.alerts.notifiers.notifier import Notifier
from headrace.config import Settings
from headrace.connectors.settings_tables import build_from_fields
from headrace.durations import parse_duration
from headrace.errors import ConfigError, Error, together
from headrace.model.alerts import SEVERITIES
from headrace.spelling import closest

KINDS = {
    "pagerduty": "headrace.alerts.notifiers.pagerduty:PagerDuty",
    "slack": "headrace.alerts.notifiers.slack:Slack",
    "teams": "headrace.alerts.notifiers.teams:Teams",
    "email": "headrace.alerts.notifiers.mail:Mail",
    "webhook": "headrace.alerts.notifiers.webhook:Webhook",
    "apprise": "headrace.alerts.notifiers.apprise:Apprise",
}
HEARTBEAT = "heartbeat"  # gets pings instead of alerts
GROUP = "headrace.notifiers"
_ROUTING = ("severity", "pipelines", "rules", "repeat_every")


@dataclass(frozen=True, slots=True)
class Route:
    """Which alerts a channel gets; an empty field means all."""

    severity: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()  # globs
    rules: tuple[str, ...] = ()

    def takes(self, severity: str, pipeline: str, rule: str) -> bool:
        return (
            (not self.severity or severity in self.severity)
            and (not self.pipelines or any(fnmatchcase(pipeline, p) for p in self.pipelines))
            and (not self.rules or rule in self.rules)
        )


@dataclass(frozen=True, slots=True)
class Channel:
    name: str
    kind: str
    notifier: Notifier
    route: Route = field(default_factory=Route)
    repeat_s: float | None = None  # send again while the alert stays open


def tables(settings: Settings) -> dict[str, Mapping[str, Any]]:
    """`[notify.NAME]` of all channels. Other keys of `[notify]` are not channels."""
    return {name: table for name, table in settings.notify.items() if isinstance(table, Mapping)}


def channels(settings: Settings) -> list[Channel]:
    """All channels that get alerts; raises all problems at once."""
    return [one for one in _build_all(settings) if isinstance(one, Channel)]


def heartbeats(settings: Settings) -> dict[str, Heartbeat]:
    built = zip(tables(settings), _build_all(settings), strict=True)
    return {name: one for name, one in built if isinstance(one, Heartbeat)}


def _build_all(settings: Settings) -> list[Channel | Heartbeat]:
    built, problems = [], []
    for name, table in tables(settings).items():
        try:
            built.append(build(name, table, settings.place("notify", name)))
        except Error as exc:
            problems.append(exc)
    if problems:
        raise together(problems)
    return built


def build(name: str, table: Mapping[str, Any], where: str | None = None) -> Channel | Heartbeat:
    """Of any kind."""
    if table.get("kind") != HEARTBEAT:
        return build_channel(name, table, where)
    given = {key: value for key, value in table.items() if key != "kind"}
    title = f"[notify.{name}]"
    return build_from_fields(Heartbeat, HEARTBEAT, given, title=title, where=where)


def build_channel(name: str, table: Mapping[str, Any], where: str | None = None) -> Channel:
    kind = table.get("kind")
    make = _maker(kind) if isinstance(kind, str) else None
    if make is None:
        raise _unknown_kind(name, kind, where)
    given = {key: value for key, value in table.items() if key not in ("kind", *_ROUTING)}
    title = f"[notify.{name}]"
    notifier = build_from_fields(make, str(kind), given, title=title, where=where)
    route = Route(
        _list_of(title, "severity", table, where, SEVERITIES),
        _list_of(title, "pipelines", table, where),
        _list_of(title, "rules", table, where),
    )
    return Channel(name, str(kind), notifier, route, _repeat_s(title, table, where))


def kind_names() -> list[str]:
    return sorted({*KINDS, HEARTBEAT, *(one.name for one in entry_points(group=GROUP))})


def _maker(kind: str) -> Callable[..., Notifier] | None:
    if path := KINDS.get(kind):
        module, _, name = path.partition(":")
        made: Callable[..., Notifier] = getattr(importlib.import_module(module), name)
        return made
    for one in entry_points(group=GROUP):
        if one.name == kind:
            loaded: Callable[..., Notifier] = one.load()
            return loaded
    return None


def _list_of(
    title: str,
    name: str,
    table: Mapping[str, Any],
    where: str | None,
    allowed: Sequence[str] = (),
) -> tuple[str, ...]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(
            f"{title}: Invalid {name}: {value!r}.",
            why="It must be a list of strings.",
            where=where,
            fix=f'Write {name} = ["{allowed[-1] if allowed else "…"}"].',
        )
    for item in value:
        if allowed and item not in allowed:
            meant = closest(item, allowed)
            raise ConfigError(
                f"{title}: Unknown {name} {item!r}.",
                why=f"Allowed: {', '.join(allowed)}.",
                where=where,
                fix=f"Did you mean {meant!r}?" if meant else None,
            )
    return tuple(value)


def _repeat_s(title: str, table: Mapping[str, Any], where: str | None) -> float | None:
    if "repeat_every" not in table:
        return None
    try:
        return parse_duration(table["repeat_every"])
    except ConfigError as exc:
        raise ConfigError(
            f"{title}: {exc.what}", why=exc.why, where=where, fix=exc.fix, slug=exc.code
        ) from exc


def _unknown_kind(name: str, kind: object, where: str | None) -> ConfigError:
    known = kind_names()
    meant = closest(str(kind), known)
    problem = "has no kind" if kind is None else f"has the unknown kind {kind!r}"
    return ConfigError(
        f"[notify.{name}] {problem}.",
        why=f"Allowed: {', '.join(known)}.",
        where=where,
        fix=f'Write kind = "{meant}".' if meant else 'Write, for example, kind = "slack".',
        slug="unknown-kind",
    )
