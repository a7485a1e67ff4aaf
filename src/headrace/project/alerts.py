"""Alerts of a project, open or resolved, and a test of its channels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headrace.alerts import channels
from headrace.alerts.channels import Channel
from headrace.alerts.notifiers.heartbeat import Heartbeat
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.config import Settings
from headrace.errors import ConfigError, ControlError, NotifyError
from headrace.failures.redaction import redact
from headrace.model.notices import Notice, NoticeKind
from headrace.project import status
from headrace.project.workspace import Workspace, resolve_query
from headrace.secrets import resolved_values
from headrace.spelling import suggest
from headrace.state.installation_id import home
from headrace.store import alerts as stored
from headrace.store import db, deliveries, silences
from headrace.store.alerts import StoredAlert
from headrace.store.deliveries import Delivery
from headrace.store.silences import Silence

SHOWN_MAX = 1_000


def find(work: Workspace, name: str | None, *, is_all: bool) -> list[StoredAlert]:
    pipeline, query = resolve_query(work, name, status.queries(work)) if name else (None, None)
    ask = partial(
        stored.list_alerts,
        state="all" if is_all else "open",
        limit=SHOWN_MAX,
        pipeline=pipeline,
        query=query,
    )
    return db.read(work.places.alerts, ask) or []


def show(work: Workspace, number: int) -> tuple[StoredAlert, list[Delivery]]:
    """The alert and its deliveries, the newest first."""

    def ask(conn: db.Store) -> tuple[StoredAlert, list[Delivery]] | None:
        alert = stored.by_id(conn, number)
        return None if alert is None else (alert, deliveries.of_alert(conn, number))

    seen = db.read(work.places.alerts, ask)
    if seen is None:
        raise ControlError(
            f"Alert {number} does not exist.",
            fix="List alerts with their numbers: headrace alerts list --all",
            slug="unknown-alert",
        )
    return seen


def send_test(work: Workspace, name: str) -> dict[str, str]:
    """Sends a test notice and resolves it, or a ping. Returns the replies of the service."""
    settings = work.settings
    check_channel(settings, name)
    where = settings.place("notify", name)
    made = channels.build(name, channels.tables(settings)[name], where)
    steps = {"ping": made.ping} if isinstance(made, Heartbeat) else _build_test(work, made)
    replies = {}
    for what, send in steps.items():
        try:
            replies[what] = redact(send(), resolved_values())
        except DeliveryError as exc:
            kind, sent = "heartbeat", what
            if not isinstance(made, Heartbeat):
                kind, sent = made.kind, f"{what} notice"
            raise NotifyError(
                f"{name} ({kind}) did not accept the {sent}.",
                why=redact(exc.text, resolved_values()),
                where=where,
                fix="Correct the channel's settings."
                if exc.is_permanent
                else "Check that the service can be reached from this machine.",
            ) from exc
    return replies


def _build_test(work: Workspace, channel: Channel) -> dict[str, Callable[[], str]]:
    now = time.time()
    notices = [
        Notice(
            kind, f"{home(work.places)}:test:{int(now)}", f"Test notice for channel {channel.name}",
            "info", work.settings.name, "", "test", opened_at=now, at=time.time(),
            facts={"What to do": "Nothing. This is a test, sent with `headrace alerts test`."},
        )
        for kind in (NoticeKind.TRIGGER, NoticeKind.RESOLVE)
    ]  # fmt: skip
    return {str(one.kind): partial(channel.notifier.send, one) for one in notices}


def check_channel(settings: Settings, name: str) -> None:
    """Raises if there is no channel with this name."""
    known = channels.tables(settings)
    if name not in known:
        raise ConfigError(
            f"Unknown channel {name!r}.",
            why=f"Channels: {', '.join(known) or 'none'}.",
            fix=suggest(name, known, f"Add [notify.{name}] to headrace.toml."),
            slug="unknown-channel",
        )


def active_silences(work: Workspace, at: float) -> list[Silence]:
    return db.read(work.places.alerts, partial(silences.list_silences, at=at)) or []


def to_json(alert: StoredAlert, active: Sequence[Silence], at: float) -> dict[str, Any]:
    """The form of an alert on the page, in the API and on the command line. `silenced_until`: null
    if no silence applies to it."""
    found = silences.find(active, alert, at) if alert.resolved_at is None else None
    return {**alert.to_json(), "silenced_until": found.until if found else None}
