"""Delivers alert changes to one channel. `channel_thread.py` calls these functions.

`deliver` settles the oldest change, or a group of similar ones. Invariants: a change is settled
only after the service has answered; changes of one alert are sent in order; a notice is given up
only if the service itself rejects it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headrace.alerts.channels import Channel
from headrace.alerts.notices import Sender, build_notice, next_group, notice_key, subject
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.errors import Error
from headrace.failures.redaction import redact
from headrace.model import times
from headrace.model.notices import Notice, NoticeKind
from headrace.relay.throttle import Throttle
from headrace.secrets import resolved_values
from headrace.store import alert_changes, db, deliveries, silences
from headrace.store.alert_changes import AlertChange
from headrace.store.deliveries import Delivery, DeliveryState

PENDING_MAX = 10_000  # changes that one notice can stand for
REPLY_CHARS_MAX = 1_000
MISSING_S = 60.0  # between attempts while a secret or a package is missing

logger = logging.getLogger(__name__)


def deliver(
    conn: db.Store,
    channel: Channel,
    sender: Sender,
    attempt: int,
    wall: Callable[[], float],
    throttle: Throttle | None = None,
) -> int | None:
    """Settles the oldest changes. Returns how many notices that took, 0 or 1; None if nothing can
    be sent now. Raises DeliveryError if they must be sent again; `attempt` counts the attempts."""
    found = deliveries.pending(conn, channel.name, PENDING_MAX)
    ready = _leave_full(found, throttle)
    wanted = _choose_wanted(conn, channel, ready)
    if wanted and not (wanted := _leave_silenced(conn, channel.name, wanted, wall())):
        return 0
    if not wanted:
        if not found or len(ready) < len(found):
            return None
        alert_changes.advance(conn, deliveries.reader(channel.name), found[-1].id)
        return 0
    changes = next_group(wanted)
    if changes[0].kind == NoticeKind.TRIGGER:
        key, changes = _choose_opening(conn, channel.name, changes, sender)
    else:
        key, changes = _choose_closing(conn, channel.name, changes, wall())
        if not changes:
            return 0

    if throttle is not None:
        throttle.note(subject(changes[0]))
    _send(conn, channel, key, changes, sender, attempt, wall)
    return 1


def deliver_after_silence(
    conn: db.Store, channel: Channel, sender: Sender, attempt: int, wall: Callable[[], float]
) -> int | None:
    """Sends alerts that are still open at the end of their silence. Returns as `deliver` does."""
    at = wall()
    held = deliveries.silenced(conn, channel.name, PENDING_MAX)
    active = silences.list_silences(conn, at) if held else []
    due = [change for change in held if silences.find(active, change.alert, at) is None]
    if not due:
        return None
    key, changes = _choose_opening(conn, channel.name, next_group(due), sender)
    # The reader has passed these changes: they stay silenced until the service has answered.
    _send(conn, channel, key, changes, sender, attempt, wall, waiting=DeliveryState.SILENCED)
    return 1


def repeat(conn: db.Store, channel: Channel, sender: Sender, wall: Callable[[], float]) -> int:
    """Sends open alerts again that were last sent `repeat_every` ago; returns how many notices."""
    if channel.repeat_s is None:
        return 0
    at = wall()
    sent = deliveries.sent_before(conn, channel.name, at - channel.repeat_s)
    active = silences.list_silences(conn, at) if sent else []
    by_key: dict[str, list[AlertChange]] = {}
    for key, change in sent:
        if silences.find(active, change.alert, at) is None:
            by_key.setdefault(key, []).append(change)
    for key, changes in by_key.items():
        notice = hide_secrets(build_notice(changes, key, sender, repeated_at=at))
        try:
            reply = channel.notifier.send(notice)
        except DeliveryError as exc:
            if not exc.is_permanent:
                raise
            reply = exc.text
        # It stays sent, whatever the reply: the alert is open at the service.
        _record(conn, channel, notice.kind, key, changes, DeliveryState.SENT, reply, 1, wall())
    return len(by_key)


def hide_secrets(notice: Notice) -> Notice:
    """A row, or the message of an error, may contain one."""
    known = resolved_values()

    def hide(text: str) -> str:
        return redact(text, known)

    facts = {hide(heading): hide(text) for heading, text in notice.facts.items()}
    by = None if notice.by is None else hide(notice.by)
    return replace(notice, title=hide(notice.title), facts=facts, key=_hide_key(notice.key), by=by)


def _hide_key(key: str) -> str:
    """Different keys stay different."""
    hidden = redact(key, resolved_values())
    return key if hidden == key else f"{hidden}#{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _send(
    conn: db.Store,
    channel: Channel,
    key: str,
    changes: Sequence[AlertChange],
    sender: Sender,
    attempt: int,
    wall: Callable[[], float],
    waiting: DeliveryState = DeliveryState.WAITING,
) -> None:
    """Sends the notice and records the result for its changes."""
    last = alert_changes.by_id(conn, changes[-1].id)  # with its data
    whole = [*changes[:-1], last or changes[-1]]
    notice = hide_secrets(build_notice(whole, key, sender))

    def record(state: DeliveryState, reply: str) -> None:
        _record(conn, channel, notice.kind, notice.key, changes, state, reply, attempt, wall())

    try:
        record(DeliveryState.SENT, channel.notifier.send(notice))
    except DeliveryError as exc:
        record(DeliveryState.FAILED if exc.is_permanent else waiting, exc.text)
        if not exc.is_permanent:
            raise
        logger.error("%s rejected a notice: %s", channel.name, redact(exc.text, resolved_values()))
    except Error as exc:  # a missing secret or package: a person can repair it
        record(waiting, exc.what)
        raise DeliveryError(exc.what, retry_after_s=MISSING_S) from exc


def _record(
    conn: db.Store,
    channel: Channel,
    kind: NoticeKind,
    key: str,
    changes: Sequence[AlertChange],
    state: DeliveryState,
    reply: str,
    attempt: int,
    at: float,
) -> None:
    text = redact(reply, resolved_values())[:REPLY_CHARS_MAX]
    done = Delivery(channel.name, str(kind), key, state, at, attempt, text)
    deliveries.record(conn, changes, done)


def _leave_full(found: list[AlertChange], throttle: Throttle | None) -> list[AlertChange]:
    """Without alerts of a flood, which wait and become one notice, and their later changes."""
    full = throttle.full_subjects() if throttle else set()
    if not full:
        return found
    left: set[int] = set()
    for change in found:
        if change.kind == NoticeKind.TRIGGER and subject(change) in full:
            left.add(change.alert.id)
    return [change for change in found if change.alert.id not in left]


def _choose_wanted(
    conn: db.Store, channel: Channel, changes: Sequence[AlertChange]
) -> list[AlertChange]:
    """The channel's route decides about alerts that open or become more severe. Their later changes
    go where they were sent, even if the alert has become less severe."""
    if not changes:
        return []
    ids = [change.alert.id for change in changes]
    sent = deliveries.sent_alerts(conn, channel.name, min(ids), max(ids))
    wanted = []
    for change in changes:
        alert = change.alert
        is_new = change.kind == NoticeKind.TRIGGER
        takes = channel.route.takes(alert.severity, alert.pipeline, alert.rule)
        if takes if is_new else alert.id in sent or takes:
            wanted.append(change)
    return wanted


def _leave_silenced(
    conn: db.Store, channel: str, changes: list[AlertChange], at: float
) -> list[AlertChange]:
    """Only new alerts are silenced: what is open at a service must be resolved there."""
    active = silences.list_silences(conn, at)
    if not active:
        return changes
    left, held = [], dict[int, list[AlertChange]]()
    for change in changes:
        silence = silences.find(active, change.alert, at)
        if change.kind != NoticeKind.TRIGGER or silence is None:
            left.append(change)
        else:
            held.setdefault(silence.id, []).append(change)
    for silence in active:
        if silenced := held.get(silence.id):
            until = times.clock(silence.until)
            why = f"silenced by {silence.by} until {until}: {silence.reason}"
            text = redact(why, resolved_values())[:REPLY_CHARS_MAX]
            kind, state = str(NoticeKind.TRIGGER), DeliveryState.SILENCED
            deliveries.record(conn, silenced, Delivery(channel, kind, "", state, at, 0, text))
    return left


def _choose_opening(
    conn: db.Store, channel: str, changes: list[AlertChange], sender: Sender
) -> tuple[str, list[AlertChange]]:
    """Of alerts that were sent before and became more severe, those with the key of the first: the
    service updates what it has. Otherwise those that were never sent, with a new key."""
    keys = [deliveries.sent_key(conn, channel, change.alert.id) for change in changes]
    alike = [change for change, key in zip(changes, keys, strict=True) if key == keys[0]]
    return keys[0] or notice_key(alike, sender), alike


def _choose_closing(
    conn: db.Store, channel: str, changes: list[AlertChange], at: float
) -> tuple[str, list[AlertChange]]:
    """A key that is open at the service and whose alerts are all resolved (or acknowledged) now,
    and its changes. Other changes are skipped."""
    by_key: dict[tuple[str, str], list[AlertChange]] = {}
    whys: dict[str, str] = {}
    for change in changes:
        key = deliveries.sent_key(conn, channel, change.alert.id) or ""
        if key not in whys:
            whys[key] = _why_not_now(conn, channel, change.kind, key)
        why = whys[key] or _why_outdated(change)
        by_key.setdefault((key, why), []).append(change)
    closing_: tuple[str, list[AlertChange]] = ("", [])
    for (key, why), alike in by_key.items():
        if not why:
            closing_ = (key, alike)  # of several keys, the others come next
            continue
        kind = str(alike[0].kind)
        skipped = Delivery(channel, kind, key, DeliveryState.SKIPPED, at, 0, why)
        deliveries.record(conn, alike, skipped)
    return closing_


def _why_not_now(conn: db.Store, channel: str, kind: NoticeKind, key: str) -> str:
    """Why nothing is sent about this key; empty if something is."""
    if not key:
        return "the alert itself was not sent"
    is_acknowledged = kind == NoticeKind.ACKNOWLEDGE
    if deliveries.has_open(conn, channel, key, is_unacknowledged=is_acknowledged):
        return _OTHERS[kind]
    return ""


_OTHERS: Mapping[NoticeKind, str] = {
    NoticeKind.ACKNOWLEDGE: "it, or another alert in its group, is not acknowledged now",
    NoticeKind.RESOLVE: "other alerts in its group are still open",
}


def _why_outdated(change: AlertChange) -> str:
    is_over = change.kind == NoticeKind.ACKNOWLEDGE and change.alert.resolved_at is not None
    return "the alert is already resolved" if is_over else ""
