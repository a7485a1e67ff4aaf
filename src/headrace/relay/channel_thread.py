"""One thread per channel: a hung service delays nothing else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing

from headrace.alerts.channels import Channel
from headrace.alerts.notices import Sender
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.failures.redaction import redact
from headrace.model.state_paths import StatePaths
from headrace.relay.delivery import deliver, deliver_after_silence, repeat
from headrace.relay.throttle import Throttle
from headrace.secrets import resolved_values
from headrace.store import db, deliveries

IDLE_S = 5.0  # how often to look for alerts to repeat, silences that end, and a replaced store
POLL_S = 0.1  # how often to look whether alerts.db has changed: a cheap call
FLOOD_S = 1.0  # the same, while a flood of alerts waits: then it is not cheap
DELAY_S_MIN, DELAY_S_MAX = 1.0, 60.0

logger = logging.getLogger(__name__)


class ChannelThread:
    """Delivers to one channel until `end`. `problem`: why notices are waiting, if they are."""

    def __init__(self, channel: Channel, places: StatePaths, sender: Callable[[], Sender]) -> None:
        self.channel = channel
        self.problem: str | None = None
        self._places = places
        self._sender = sender
        self._over = threading.Event()
        self._throttle = Throttle()
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
                text = redact(f"{type(exc).__name__}: {exc}", resolved_values())
                logger.error("channel %s failed; retrying: %s", self.channel.name, text)
                self.problem = text
            self._over.wait(DELAY_S_MIN)

    def _follow(self, conn: db.Store) -> None:
        """Delivers until the store is replaced."""
        version, delay_s, attempt, due = -1, DELAY_S_MIN, 1, 0.0
        while not self._over.wait(FLOOD_S if self._throttle.full_subjects() else POLL_S):
            now = conn.execute("PRAGMA data_version").fetchone()[0]
            is_due = time.monotonic() >= due
            if now == version and not is_due:
                continue
            if not db.is_in_place(conn):
                return
            try:
                while not self._over.is_set() and self._deliver(conn, attempt, is_due=is_due):
                    delay_s, attempt, self.problem = DELAY_S_MIN, 1, None
                version = now
                if is_due:
                    repeat(conn, self.channel, self._sender(), time.time)
                    due = time.monotonic() + IDLE_S
            except DeliveryError as exc:
                self.problem = redact(exc.text, resolved_values())
                self._over.wait(max(delay_s, exc.retry_after_s or 0.0))
                delay_s, attempt = min(DELAY_S_MAX, 2 * delay_s), attempt + 1

    def _deliver(self, conn: db.Store, attempt: int, *, is_due: bool) -> bool:
        """Waits if the channel has sent too much: changes that arrive meanwhile are grouped."""
        if (wait_s := self._throttle.wait_s) > 0:
            self._over.wait(wait_s)
        about = (conn, self.channel, self._sender(), attempt, time.time)
        sent = deliver(*about, self._throttle)
        if sent is None and is_due:
            sent = deliver_after_silence(*about)
        return sent is not None
