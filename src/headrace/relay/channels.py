"""Runs the threads of the channels in the current settings. Called by `main` in every round."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Protocol

from headrace import secrets
from headrace.alerts import channels
from headrace.alerts.channels import Channel
from headrace.alerts.notices import Sender
from headrace.alerts.notifiers.heartbeat import Heartbeat
from headrace.alerts.notifiers.notifier import ReportsAcknowledgements
from headrace.errors import Error
from headrace.model.state_paths import StatePaths
from headrace.project.workspace import Workspace
from headrace.relay.acknowledgements import AcknowledgementThread
from headrace.relay.channel_thread import ChannelThread
from headrace.relay.heartbeats import HeartbeatThread
from headrace.state import page
from headrace.state.installation_id import home
from headrace.store import alert_changes, db, deliveries

PAGE_S = 10.0  # how often the address of the page is read


class _Thread(Protocol):
    @property
    def problem(self) -> str | None: ...

    def end(self) -> None: ...


class Channels:
    """Owns the threads. A channel whose settings are invalid keeps its last valid ones; a mistake
    in one never affects another."""

    def __init__(self) -> None:
        self._threads: dict[str, dict[str, _Thread]] = {}  # channel -> what it does -> thread
        self._settings: dict[str, str] = {}  # of the running threads, by channel
        self._wrong: dict[str, str] = {}  # problems of settings, by channel
        self._readers: set[str] = set()

    def tick(self, work: Workspace) -> list[str]:
        """The current problems."""
        tables = channels.tables(work.settings)
        for value in secrets.values(work.settings.raw):
            secrets.remember(value)  # rows and replies may contain any of them
        self._forget(work.places, set(tables))
        for name, table in tables.items():
            text = json.dumps([table, work.settings.web.address], sort_keys=True, default=str)
            if text != self._settings.get(name):
                self._settings[name] = text
                self._apply(work, name, table)
        return [*self._wrong.values(), *_find_missing_secrets(tables), *self._find_waiting()]

    def close(self) -> None:
        for name in list(self._threads):
            self._end(name)
        self._settings.clear()

    def _apply(self, work: Workspace, name: str, table: Mapping[str, Any]) -> None:
        try:
            made = channels.build(name, table, work.settings.place("notify", name))
        except Error as exc:
            self._wrong[name] = exc.what
            return
        self._wrong.pop(name, None)
        self._end(name)
        self._threads[name] = _start(work, name, made)

    def _forget(self, places: StatePaths, names: set[str]) -> None:
        """Ends channels that are no longer configured. A channel that is configured again later
        starts with the changes made from then on."""
        for name in self._settings.keys() - names:
            self._end(name)
            self._settings.pop(name)
            self._wrong.pop(name, None)
        if names and names != self._readers:
            with closing(db.open_alerts(places.alerts)) as conn:
                kept = {alert_changes.EVENTS, *(deliveries.reader(name) for name in names)}
                alert_changes.remove_readers(conn, kept)
            self._readers = names

    def _end(self, name: str) -> None:
        for thread in self._threads.pop(name, {}).values():
            thread.end()

    def _find_waiting(self) -> list[str]:
        return [
            f"{what.format(name=name)}: {thread.problem}"
            for name, threads in self._threads.items()
            for what, thread in threads.items()
            if thread.problem
        ]


def _start(work: Workspace, name: str, made: Channel | Heartbeat) -> dict[str, _Thread]:
    places = work.places
    if isinstance(made, Heartbeat):
        return {"the ping of {name} failed": HeartbeatThread(name, made, places)}
    threads: dict[str, _Thread] = {
        "notices to {name} are waiting": ChannelThread(made, places, _SenderOf(work))
    }
    notifier = made.notifier
    if isinstance(notifier, ReportsAcknowledgements) and notifier.has_api:
        what = "acknowledgements in {name} cannot be read"
        threads[what] = AcknowledgementThread(name, notifier, places)
    return threads


def _find_missing_secrets(tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Known before the first notice has to be sent."""
    problems = []
    for name, table in tables.items():
        for value in table.values():
            try:
                secrets.resolve(value) if secrets.is_in(value) else None
            except (Error, UnicodeDecodeError) as exc:
                text = exc.what if isinstance(exc, Error) else "a secret is not valid UTF-8"
                problems.append(f"channel {name} cannot send: {text}")
    return problems


class _SenderOf:
    """The sender of notices, with the current address of the page."""

    def __init__(self, work: Workspace) -> None:
        self._places, self._project = work.places, work.settings.name
        self._address = work.settings.web.address
        self._home = home(work.places)
        self._made: tuple[float, Sender] | None = None

    def __call__(self) -> Sender:
        now = time.monotonic()
        if self._made is None or now > self._made[0] + PAGE_S:
            listening = page.listening(self._places)
            url = self._address or (listening.url if listening else None)
            self._made = (now, Sender(self._project, self._home, url.rstrip("/") if url else None))
        return self._made[1]
