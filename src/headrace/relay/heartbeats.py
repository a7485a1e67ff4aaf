"""Pings a service while the supervisor works: when the pings stop, the service tells a person.

Invariant: no ping while the supervisor is dead or hangs. It marks each round of its loop
(`state/supervisor_lookup.mark_alive`); the age of the mark decides.
"""

from __future__ import annotations

import logging
import threading
import time

from headrace.alerts.notifiers.heartbeat import Heartbeat
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.errors import Error
from headrace.failures.redaction import redact
from headrace.model.state_paths import StatePaths
from headrace.secrets import resolved_values
from headrace.state import supervisor_lookup

HUNG_S = 30.0  # a round takes milliseconds; one that waits for a locked store, seconds
POLL_S = 1.0
RETRY_S = 5.0  # after a ping that failed

logger = logging.getLogger(__name__)


class HeartbeatThread:
    """`problem`: why the last ping failed, or was not sent."""

    def __init__(self, name: str, heartbeat: Heartbeat, places: StatePaths) -> None:
        self.problem: str | None = None
        self._heartbeat, self._places = heartbeat, places
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat {name}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        due = 0.0
        while not self._over.is_set():
            now = time.monotonic()
            if now >= due:
                self.problem = self._ping()
                every_s = self._heartbeat.every_s
                due = now + (every_s if self.problem is None else min(every_s, RETRY_S))
            self._over.wait(min(POLL_S, max(0.0, due - time.monotonic())))

    def _ping(self) -> str | None:
        """The problem, if there is one."""
        try:
            age_s = supervisor_lookup.seconds_since_alive(self._places, time.time())
            if age_s is None or age_s > HUNG_S:
                return "the supervisor is not working, so no ping is sent"
            self._heartbeat.ping()
        except DeliveryError as exc:
            return redact(exc.text, resolved_values())
        except Error as exc:
            return exc.what
        except Exception as exc:  # a boundary: the next ping is tried all the same
            return redact(f"{type(exc).__name__}: {exc}", resolved_values())
        return None
