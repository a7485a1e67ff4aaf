"""Delivers alert changes to one channel, in its own thread: a hung service delays nothing else.

`deliver` settles the oldest change, or a group of similar ones; `ChannelThread` calls it whenever
alerts.db has changed. Invariants: a change is settled only after the service has answered; changes
of one alert are sent in order; a notice is given up only if the service itself rejects it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing

from headrace.alerts.channels import Channel
from headrace.alerts.notices import Sender, build_notice, next_group, notice_key
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.errors import Error
from headrace.failures.redaction import redact
from headrace.model.notices import Notice, NoticeKind
from headrace.model.state_paths import StatePaths
from headrace.secrets import resolved_values
from headrace.store import alert_changes, db, deliveries
from headrace.store.alert_changes import AlertChange
from headrace.store.deliveries import Delivery, DeliveryState

IDLE_S = 5.0  # how often to look for alerts to repeat, and for a replaced store
POLL_S = 0.1  # how often to look whether alerts.db has changed: a cheap call
PENDING_MAX = 1_000  # changes that one notice can stand for
DELAY_S_MIN, DELAY_S_MAX = 1.0, 60.0
PER_MINUTE_MAX = 60  # notices; with more, they are grouped

logger = logging.getLogger(__name__)


def deliver(
    conn: db.Store, channel: Channel, sender: Sender, attempt: int, wall: Callable[[], float]
) -> int | None:
    """Settles the oldest changes. Returns how many notices that took, 0 or 1; None if there are no
    changes. Raises DeliveryError if they must be sent again; `attempt` counts the attempts."""
    found = deliveries.pending(conn, channel.name, PENDING_MAX)
    if not found:
        return None
    wanted = _choose_wanted(conn, channel, found)
    if not wanted:
        alert_changes.advance(conn, deliveries.reader(channel.name), found[-1].id)
        return 0
    changes = next_group(wanted)
    if changes[0].kind == NoticeKind.TRIGGER:
        key, changes = _choose_opening(conn, channel.name, changes, sender)
    else:
        key, changes = _choose_closing(conn, channel.name, changes, wall())
        if not changes:
            return 0

    _send(conn, channel, build_notice(changes, key, sender), changes, attempt, wall)
    return 1


def repeat(conn: db.Store, channel: Channel, sender: Sender, wall: Callable[[], float]) -> int:
    """Sends open alerts again that were last sent `repeat_every` ago; returns how many notices."""
    if channel.repeat_s is None:
        return 0
    by_key: dict[str, list[AlertChange]] = {}
    for key, change in deliveries.sent_before(conn, channel.name, wall() - channel.repeat_s):
        by_key.setdefault(key, []).append(change)
    for key, changes in by_key.items():
        notice = build_notice(changes, key, sender)
        try:
            reply = channel.notifier.send(notice)
        except DeliveryError as exc:
            if not exc.is_permanent:
                raise
            reply = exc.text
        # It stays sent, whatever the reply: the alert is open at the service.
        _record(conn, channel, notice, changes, DeliveryState.SENT, reply, 1, wall())
    return len(by_key)


def _send(
    conn: db.Store,
    channel: Channel,
    notice: Notice,
    changes: Sequence[AlertChange],
    attempt: int,
    wall: Callable[[], float],
) -> None:
    """Sends the notice and records the result for its changes."""

    def record(state: DeliveryState, reply: str) -> None:
        _record(conn, channel, notice, changes, state, reply, attempt, wall())

    try:
        record(DeliveryState.SENT, channel.notifier.send(notice))
    except DeliveryError as exc:
        record(DeliveryState.FAILED if exc.is_permanent else DeliveryState.WAITING, exc.text)
        if not exc.is_permanent:
            raise
        logger.error("%s rejected a notice: %s", channel.name, redact(exc.text, resolved_values()))
    except Error as exc:  # a missing secret or package: a person can repair it
        record(DeliveryState.WAITING, exc.what)
        raise DeliveryError(exc.what, retry_after_s=DELAY_S_MAX) from exc


def _record(
    conn: db.Store,
    channel: Channel,
    notice: Notice,
    changes: Sequence[AlertChange],
    state: DeliveryState,
    reply: str,
    attempt: int,
    at: float,
) -> None:
    text = redact(reply, resolved_values())
    done = Delivery(channel.name, str(notice.kind), notice.key, state, at, attempt, text)
    deliveries.record(conn, changes, done)


def _choose_wanted(
    conn: db.Store, channel: Channel, changes: Sequence[AlertChange]
) -> list[AlertChange]:
    """The channel's route decides about alerts that open or become more severe. Their later changes
    go where they were sent, even if the alert has become less severe."""
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
    """A key that is open at the service and whose alerts are all resolved now, and its changes.
    Changes are skipped if they were never sent there, or if alerts of their group are open."""
    by_key: dict[str, list[AlertChange]] = {}
    for change in changes:
        key = deliveries.sent_key(conn, channel, change.alert.id) or ""
        by_key.setdefault(key, []).append(change)
    closing_: tuple[str, list[AlertChange]] = ("", [])
    for key, alike in by_key.items():
        if key and not deliveries.count_open(conn, channel, key):
            closing_ = (key, alike)  # of several keys, the others come next
            continue
        why = "other alerts in its group are still open" if key else "the alert itself was not sent"
        kind = str(alike[0].kind)
        skipped = Delivery(channel, kind, key, DeliveryState.SKIPPED, at, 0, why)
        deliveries.record(conn, alike, skipped)
    return closing_


class ChannelThread:
    """Delivers to one channel until `end`. `problem`: why notices are waiting, if they are."""

    def __init__(self, channel: Channel, places: StatePaths, sender: Callable[[], Sender]) -> None:
        self.channel = channel
        self.problem: str | None = None
        self._places = places
        self._sender = sender
        self._over = threading.Event()
        self._sent: deque[float] = deque(maxlen=PER_MINUTE_MAX)
        self._thread = threading.Thread(
            target=self._run, name=f"channel {channel.name}", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Does not wait for a service that hangs: its notice is sent again after a restart."""
        self._over.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with closing(db.open_alerts(self._places.alerts)) as conn:
                    deliveries.start(conn, self.channel.name, time.time())
                    self._follow(conn)
            except Exception as exc:  # a boundary: no other thread delivers to this channel
                logger.exception("channel %s failed; retrying", self.channel.name)
                self.problem = f"{type(exc).__name__}: {exc}"
            self._over.wait(DELAY_S_MIN)

    def _follow(self, conn: db.Store) -> None:
        """Delivers until the store is replaced."""
        version, delay_s, attempt, due = -1, DELAY_S_MIN, 1, 0.0
        while not self._over.wait(POLL_S):
            now = conn.execute("PRAGMA data_version").fetchone()[0]
            if now == version and time.monotonic() < due:
                continue
            if not db.is_in_place(conn):
                return
            try:
                while not self._over.is_set() and self._deliver(conn, attempt):
                    delay_s, attempt, self.problem = DELAY_S_MIN, 1, None
                repeat(conn, self.channel, self._sender(), time.time)
                version, due = now, time.monotonic() + IDLE_S
            except DeliveryError as exc:
                self.problem = redact(exc.text, resolved_values())
                self._over.wait(max(delay_s, exc.retry_after_s or 0.0))
                delay_s, attempt = min(DELAY_S_MAX, 2 * delay_s), attempt + 1

    def _deliver(self, conn: db.Store, attempt: int) -> bool:
        """Waits if the channel has sent too much: changes that arrive meanwhile are grouped."""
        full = len(self._sent) == PER_MINUTE_MAX
        if full and (wait_s := self._sent[0] + 60.0 - time.monotonic()) > 0:
            self._over.wait(wait_s)
        sent = deliver(conn, self.channel, self._sender(), attempt, time.time)
        if sent:
            self._sent.append(time.monotonic())
        return sent is not None
