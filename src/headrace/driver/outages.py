"""Sources that do not answer: noticed from what queries say once a second, and named.

Spark's own client tries again for minutes and says nothing meanwhile. So after some seconds a plain
connection to the source's address is tried, in a thread of its own: it fails with the words that a
person needs. Called by the sampler. Invariant: nothing in here waits, and every outage that began
in this run has an end in its events.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.driver.events import EventsFile
from headrace.model.events import Kind

ASKED_S = 12.0  # Spark tells of an idle query every 10 s: one that says nothing for longer waits
CONNECT_S = 3.0
AGAIN_S = 5.0  # between two tries
ASKING = "Getting offsets from "
ENDED = ("Terminated", "Stopped")
TRIED_MAX = 10  # addresses of a source

Connect = Callable[[str], str | None]


def connect(address: str) -> str | None:
    """What goes wrong when somebody connects to HOST:PORT, in words; None: it is reached."""
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
class _Try:
    """One attempt to reach all addresses of a source."""

    at: float
    errors: dict[str, str | None] = field(default_factory=dict)
    is_done: bool = False

    def run(self, addresses: Iterable[str], connect: Connect) -> None:
        for address in addresses:
            self.errors[address] = connect(address)
        self.is_done = True


@dataclass(slots=True)
class _Wait:
    """A query that has not advanced since then, on both clocks."""

    since: float
    since_wall: float
    is_asking: bool  # for what is new; else it is in a batch
    tasks_done: int | None
    is_told: bool = False
    tried: _Try | None = None

    def is_over(self, is_asking: bool, tasks_done: int | None, heard_at: float) -> bool:
        if is_asking != self.is_asking or heard_at > self.since:
            return True
        known = None not in (tasks_done, self.tasks_done)
        return known and not is_asking and tasks_done != self.tasks_done


@dataclass(slots=True)
class Outages:
    events: EventsFile
    connect: Connect = connect
    _addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by query
    _waits: dict[str, _Wait] = field(default_factory=dict)

    def note(self, query: str, addresses: Iterable[str]) -> None:
        self._addresses[query] = tuple(addresses)[:TRIED_MAX]

    def look(
        self, query: str, status: Mapping[str, Any], heard_at: float | None, now: float
    ) -> None:
        """`heard_at`: when it last committed a batch or found nothing to do."""
        message, tasks = str(status.get("message")), status.get("tasks_done")
        is_asking = message.startswith(ASKING)
        wait = self._waits.get(query)
        if message.startswith(ENDED):
            return  # whether it was answered is known when the run ends
        if not is_asking and not status.get("trigger_active"):
            self.end(query)
            return
        if wait is None or wait.is_over(is_asking, tasks, heard_at or 0.0):
            self.end(query)
            self._waits[query] = _Wait(now, time.time(), is_asking, tasks)
            return
        wait.tasks_done = tasks if wait.tasks_done is None else wait.tasks_done
        if now - wait.since < ASKED_S or (wait.tried and not wait.tried.is_done):
            return
        if wait.tried:
            self._judge(query, wait, message.removeprefix(ASKING) if is_asking else None)
        if wait.tried is None or now - wait.tried.at >= AGAIN_S:
            wait.tried = self._try(query, now)

    def end(self, query: str, *, is_answered: bool = True) -> None:
        """It answers again; or the run ends before it did."""
        wait = self._waits.pop(query, None)
        if wait is not None and wait.is_told:
            data = {"for_s": round(time.time() - wait.since_wall, 1), "is_answered": is_answered}
            self.events.tell(Kind.OUTAGE_ENDED, query, data)

    def end_all(self) -> None:
        for query in list(self._waits):
            self.end(query, is_answered=False)

    def _judge(self, query: str, wait: _Wait, source: str | None) -> None:
        """A batch that takes long is an outage only while nothing can be reached."""
        errors = wait.tried.errors if wait.tried else {}
        is_out = wait.is_asking or (bool(errors) and all(errors.values()))
        if wait.is_told and not is_out:
            self.end(query)
        elif is_out and not wait.is_told:
            wait.is_told = True
            data: dict[str, Any] = {"error": _words(errors, source), "addresses": list(errors)}
            data |= {"source": source, "since": round(wait.since_wall, 3)}
            self.events.tell(Kind.OUTAGE_BEGAN, query, data)

    def _try(self, query: str, now: float) -> _Try:
        tried = _Try(now)
        given = (self._addresses.get(query, ()), self.connect)
        threading.Thread(target=tried.run, args=given, name="connect", daemon=True).start()
        return tried


def _words(errors: Mapping[str, str | None], source: str | None) -> str:
    failed = [f"{address}: {error}" for address, error in errors.items() if error]
    if failed:
        return f"Kafka {'; '.join(failed)}"
    if errors:
        return f"Kafka {', '.join(errors)}: accepts connections, but does not answer requests"
    return f"{source or 'its source'}: no answer"
