"""What the page shows about alerts, silences and channels. Functions from a `Visit` to JSON.

Invariants: reads only; secrets are removed from what a service replied.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response

from headrace.alerts import channels
from headrace.errors import ConfigError, Error
from headrace.model.alerts import RULE_OF_ROWS
from headrace.project import alerts as project_alerts
from headrace.state import definitions, desired
from headrace.store import db, deliveries, silences
from headrace.store.alerts import StoredAlert
from headrace.store.deliveries import ChannelRecord
from headrace.web.graph import affected_sinks
from headrace.web.visit import Visit

SILENCES_SHOWN = 200
DIGITS_MAX = 18  # of a number that SQLite can store


def list_alerts(visit: Visit) -> dict[str, Any]:
    work = visit.site.workspace()
    seen = project_alerts.find(work, None, is_all=visit.query.get("all") == "1")
    active = project_alerts.active_silences(work, visit.now)
    shown = [project_alerts.to_json(one, active, visit.now) for one in seen]
    return {"alerts": shown, "is_cut": len(seen) == project_alerts.SHOWN_MAX}


def alert(visit: Visit) -> dict[str, Any]:
    """One alert with its deliveries, the silence that applies to it, and what it affects."""
    work = visit.site.workspace()
    found, sent = project_alerts.show(work, number(visit, "alert"))
    active = project_alerts.active_silences(work, visit.now)
    silence = silences.find(active, found, visit.now)
    body = {
        **project_alerts.to_json(found, active, visit.now),
        "silence": silence.to_json() if silence and found.resolved_at is None else None,
        "outputs": _outputs(visit, found),
        "deliveries": [one.to_json() for one in sent],
    }
    return visit.redacted(body)


def _outputs(visit: Visit, alert: StoredAlert) -> list[dict[str, Any]]:
    """The sinks that get no or late data. An alert that a row opened is about the user's data."""
    places = visit.site.places
    item = desired.read(places, alert.pipeline) if alert.pipeline else None
    if item is None or alert.rule == RULE_OF_ROWS:
        return []
    definition = definitions.read(places, item.version, item.profile, item.pipeline)
    return affected_sinks(definition, alert.query, visit.site.settings) if definition else []


def list_silences(visit: Visit) -> dict[str, Any]:
    is_all = visit.query.get("all") == "1"
    ask = partial(silences.list_silences, at=visit.now, is_all=is_all)
    found = db.read(visit.site.places.alerts, ask) or []
    return {"silences": [one.to_json() for one in found[:SILENCES_SHOWN]]}


def number(visit: Visit, name: str) -> int:
    """The number in the path. Any other text names nothing that exists."""
    given = visit.path[name]
    if given.isascii() and given.isdecimal() and len(given) <= DIGITS_MAX:
        return int(given)
    raise ConfigError(f"There is no {name} {given[:100]!r}.", slug=f"unknown-{name}")


# ---- channels


def list_channels(visit: Visit) -> Response:
    return visit.feed.cache.answer("channels", lambda: _channels(visit))


def _channels(visit: Visit) -> dict[str, Any]:
    settings = visit.site.settings
    records = db.read(visit.site.places.alerts, deliveries.by_channel) or {}
    tables = channels.tables(settings)
    found = [_channel(name, table, records.get(name)) for name, table in tables.items()]
    return visit.redacted({"channels": found})


def _channel(name: str, table: Mapping[str, Any], record: ChannelRecord | None) -> dict[str, Any]:
    """Of its settings only what says which alerts it gets: the others may be secret."""
    route, repeat_s, problem = channels.Route(), None, None
    try:
        made = channels.build(name, table)
        if isinstance(made, channels.Channel):
            route, repeat_s = made.route, made.repeat_s
        else:
            repeat_s = made.every_s
    except Error as exc:
        problem = exc.what
    last = record.last if record else None
    return {
        "name": name,
        "kind": str(table.get("kind")),
        "severity": route.severity,
        "pipelines": route.pipelines,
        "rules": route.rules,
        "repeat_s": repeat_s,
        "problem": problem,
        "state": str(last.state) if last else None,
        "at": last.at if last else None,
        "attempts": last.attempts if last else None,
        "reply": last.reply if last else None,
        "sent_at": record.sent_at if record else None,
    }
