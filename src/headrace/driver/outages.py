"""Detects sources that do not respond, from the status of the queries.

Spark's Kafka client retries for minutes and reports nothing meanwhile. So after some seconds a
thread tries a plain connection to the source's addresses, which fails with a clear error. Called by
the sampler. Invariant: nothing here waits, and every outage that began in a run ends in its events.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.driver.events import EventsFile
from headrace.model.events import EventKind

SILENT_S = 12.0  # Spark reports an idle query every 10 s; one that is silent for longer is waiting
CONNECT_S = 3.0
RETRY_S = 5.0
ASKING = "Getting offsets from "  # the status while Spark asks a source for new data
ENDED = ("Terminated", "Stopped")
ADDRESSES_MAX = 10

Connect = Callable[[str], str | None]


def connect(address: str) -> str | None:
    """Connects to HOST:PORT and returns the error, None on success."""
    host, _, port = address.strip().rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
            return None
    except (ValueError, OverflowError):
        return "not an address of the form HOST:PORT"
    except socket.gaierror:
        return f"no such host: {host}"
    except TimeoutError:
        return f"no connection within {CONNECT_S:g} s"
    except OSError as exc:
        return (exc.strerror or str(exc)).lower()


@dataclass(slots=True)
class _Attempt:
    """An attempt to connect to all addresses of a source."""

    at: float
    errors: dict[str, str | None] = field(default_factory=dict)
    is_done: bool = False

    def run(self, addresses: Iterable[str], connect: Connect) -> None:
        for address in addresses:
            self.errors[address] = connect(address)
        self.is_done = True


@dataclass(slots=True)
class _Wait:
    """A query that has not advanced since then."""

    since: float  # on the steady clock
    since_wall: float
    is_asking: bool  # for new offsets; else it is in a batch
    tasks_done: int | None
    is_reported: bool = False
    attempt: _Attempt | None = None

    def is_over(self, is_asking: bool, tasks_done: int | None, heard_at: float) -> bool:
        if is_asking != self.is_asking or heard_at > self.since:
            return True
        known = None not in (tasks_done, self.tasks_done)
        return known and not is_asking and tasks_done != self.tasks_done


@dataclass(slots=True)
class OutageTracker:
    events: EventsFile
    connect: Connect = connect
    _addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by query
    _waits: dict[str, _Wait] = field(default_factory=dict)

    def note(self, query: str, addresses: Iterable[str]) -> None:
        self._addresses[query] = tuple(addresses)[:ADDRESSES_MAX]

    def check(
        self, query: str, status: Mapping[str, Any], heard_at: float | None, now: float
    ) -> None:
        """`heard_at` is when the query last committed a batch or was idle."""
        message, tasks = str(status.get("message")), status.get("tasks_done")
        is_asking = message.startswith(ASKING)
        wait = self._waits.get(query)
        if message.startswith(ENDED):
            return  # `end_all` ends its outage
        if not is_asking and not status.get("trigger_active"):
            self.end(query)
            return
        if wait is None or wait.is_over(is_asking, tasks, heard_at or 0.0):
            self.end(query)
            self._waits[query] = _Wait(now, time.time(), is_asking, tasks)
            return
        wait.tasks_done = tasks if wait.tasks_done is None else wait.tasks_done
        if now - wait.since < SILENT_S or (wait.attempt and not wait.attempt.is_done):
            return
        if wait.attempt:
            self._report(query, wait, message.removeprefix(ASKING) if is_asking else None)
        if wait.attempt is None or now - wait.attempt.at >= RETRY_S:
            wait.attempt = self._try(query, now)

    def end(self, query: str, *, is_answered: bool = True) -> None:
        """`is_answered` is False if the run ends before the source responds."""
        wait = self._waits.pop(query, None)
        if wait is not None and wait.is_reported:
            data = {"for_s": round(time.time() - wait.since_wall, 1), "is_answered": is_answered}
            self.events.tell(EventKind.OUTAGE_ENDED, query, data)

    def end_all(self) -> None:
        for query in list(self._waits):
            self.end(query, is_answered=False)

    def _report(self, query: str, wait: _Wait, source: str | None) -> None:
        """A slow batch is an outage only while no address can be reached."""
        errors = wait.attempt.errors if wait.attempt else {}
        is_out = wait.is_asking or (bool(errors) and all(errors.values()))
        if wait.is_reported and not is_out:
            self.end(query)
        elif is_out and not wait.is_reported:
            wait.is_reported = True
            data: dict[str, Any] = {"error": _describe(errors, source), "addresses": list(errors)}
            data |= {"source": source, "since": round(wait.since_wall, 3)}
            self.events.tell(EventKind.OUTAGE_BEGAN, query, data)

    def _try(self, query: str, now: float) -> _Attempt:
        attempt = _Attempt(now)
        arguments = (self._addresses.get(query, ()), self.connect)
        threading.Thread(target=attempt.run, args=arguments, name="connect", daemon=True).start()
        return attempt


def _describe(errors: Mapping[str, str | None], source: str | None) -> str:
    failed = [f"{address}: {error}" for address, error in errors.items() if error]
    if failed:
        return f"Kafka {'; '.join(failed)}"
    if errors:
        return f"Kafka {', '.join(errors)}: accepts connections, but does not answer requests"
    return f"{source}: no response" if source else "no response"
