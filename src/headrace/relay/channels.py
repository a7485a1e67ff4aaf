"""Runs one thread per channel of the current settings. Called by `main` in every round."""

from __future__ import annotations

import json
import time
from contextlib import closing

from headrace.alerts import channels
from headrace.alerts.notices import Sender
from headrace.errors import Error
from headrace.model.state_paths import StatePaths
from headrace.project.workspace import Workspace
from headrace.relay.delivery import ChannelThread
from headrace.state import page
from headrace.state.installation_id import home
from headrace.store import alert_changes, db, deliveries

PAGE_S = 10.0  # how often the address of the page is read


class Channels:
    """Owns the threads. While the settings are invalid, the last valid ones apply."""

    def __init__(self) -> None:
        self._threads: dict[str, ChannelThread] = {}
        self._settings: str | None = None  # of the running threads

    def tick(self, work: Workspace) -> list[str]:
        """The current problems."""
        wrong = []
        try:
            self._apply(work)
        except Error as exc:
            wrong = [exc.what]
        waiting = [
            f"notices to {name} are waiting: {thread.problem}"
            for name, thread in self._threads.items()
            if thread.problem
        ]
        return [*wrong, *waiting]

    def close(self) -> None:
        for thread in self._threads.values():
            thread.end()
        self._threads.clear()

    def _apply(self, work: Workspace) -> None:
        asked = json.dumps(work.settings.notify, sort_keys=True, default=str)
        if asked == self._settings:
            return
        built = channels.channels(work.settings)
        self.close()
        self._settings = asked
        if built:
            _remove_old_readers(work.places, {channel.name for channel in built})
        sender = _SenderOf(work)
        self._threads = {
            channel.name: ChannelThread(channel, work.places, sender) for channel in built
        }


class _SenderOf:
    """The sender of notices, with the current address of the page."""

    def __init__(self, work: Workspace) -> None:
        self._places, self._project = work.places, work.settings.name
        self._home = home(work.places)
        self._made: tuple[float, Sender] | None = None

    def __call__(self) -> Sender:
        now = time.monotonic()
        if self._made is None or now > self._made[0] + PAGE_S:
            listening = page.listening(self._places)
            url = listening.url.rstrip("/") if listening else None
            self._made = (now, Sender(self._project, self._home, url))
        return self._made[1]


def _remove_old_readers(places: StatePaths, names: set[str]) -> None:
    """A channel that is configured again later starts with the changes made from then on."""
    with closing(db.open_alerts(places.alerts)) as conn:
        kept = {alert_changes.EVENTS, *(deliveries.reader(name) for name in names)}
        alert_changes.remove_readers(conn, kept)
