"""Asks a service who has acknowledged alerts there, and acknowledges them here.

Own thread, so that it never delays notices. Invariant: at most `KEYS_MAX` requests in `EVERY_S`,
however many alerts are open; each key has its turn.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing

from headrace.alerts.notifiers.notifier import DeliveryError, ReportsAcknowledgements
from headrace.errors import Error
from headrace.failures.redaction import redact
from headrace.model.state_paths import StatePaths
from headrace.secrets import resolved_values
from headrace.store import db, deliveries

EVERY_S = 30.0
KEYS_MAX = 20  # PagerDuty allows 960 requests a minute for all users of an account
CLOCK_S = 60.0  # the service's clock may be behind

logger = logging.getLogger(__name__)


class AcknowledgementThread:
    """`problem`: why the service could not be asked, if it could not."""

    def __init__(self, name: str, notifier: ReportsAcknowledgements, places: StatePaths) -> None:
        self.problem: str | None = None
        self._name, self._notifier, self._places = name, notifier, places
        self._last_key = ""
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"acknowledgements {name}", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with closing(db.open_alerts(self._places.alerts)) as conn:
                    self.problem = self._read(conn)
            except Exception as exc:  # a boundary: the next round tries again
                self.problem = redact(f"{type(exc).__name__}: {exc}", resolved_values())
            self._over.wait(EVERY_S)

    def _read(self, conn: db.Store) -> str | None:
        known = deliveries.unacknowledged(conn, self._name)
        for key in choose_keys(list(known), self._last_key):
            if self._over.is_set():
                return None
            try:
                found = self._notifier.find_acknowledgement(key)
            except DeliveryError as exc:
                return redact(exc.text, resolved_values())
            except Error as exc:
                return exc.what
            self._last_key = key
            if found is None:
                continue
            # An alert that became more severe afterwards needs a person again.
            numbers = [number for number, at in known[key].items() if found.at > at - CLOCK_S]
            deliveries.acknowledge(conn, self._name, numbers, found.by, time.time())
        return None


def choose_keys(keys: list[str], last: str) -> list[str]:
    """The next keys, after the last one that was asked. Pure."""
    keys = sorted(keys)
    after = [key for key in keys if key > last]
    return [*after, *(key for key in keys if key <= last)][:KEYS_MAX]
