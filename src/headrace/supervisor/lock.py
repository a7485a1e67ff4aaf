"""The lock that allows one supervisor per project, and the state folder."""

from __future__ import annotations

import os
import stat

from headrace.errors import SetupError
from headrace.model.state_paths import StatePaths
from headrace.state import supervisor_lookup


def prepare_state(places: StatePaths) -> None:
    """Checks the owner: the files in this folder decide which code runs as this user."""
    places.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    stats = places.state.stat()
    if stats.st_uid != os.getuid():
        raise SetupError(
            f"The state folder belongs to user {stats.st_uid}, not to this user ({os.getuid()}).",
            why="The owner of the folder controls which code Headrace runs.",
            where=str(places.state),
            fix="Run headrace as that user, or set [project] state to a folder that you own.",
            slug="state-owner",
        )
    if stats.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SetupError(
            f"Other users can write to the state folder (mode {stat.S_IMODE(stats.st_mode):o}).",
            why="Anyone who can write to this folder can make Headrace run code.",
            where=str(places.state),
            fix=f"chmod 700 {places.state}",
            slug="state-owner",
        )
    for folder in (places.requests, places.answers, places.desired_folder, places.runs):
        folder.mkdir(mode=0o700, exist_ok=True)


def take(places: StatePaths) -> None:
    """Raises if a supervisor runs. The kernel frees the lock when this process ends."""
    owner = supervisor_lookup.running(places)  # by its record, in case the lock file was removed
    is_other = owner is not None and owner.pid != os.getpid()
    if is_other or not supervisor_lookup.take_lock(places):
        owner = owner or supervisor_lookup.running(places)
        whose = f"process {owner.pid}" if owner else "another process"
        raise SetupError(
            f"A supervisor is already running for this project: {whose}.",
            why="Two supervisors would start every pipeline twice.",
            where=str(places.supervisor_lock),
            fix="Use the running supervisor, or stop it with `headrace down`.",
            slug="supervisor-running",
        )
    supervisor_lookup.record(places)


def keep_record(places: StatePaths) -> None:
    """Restores supervisor.json if it was removed or damaged, and marks that the loop works."""
    if places.state.is_dir() and supervisor_lookup.find_recorded(places) is None:
        supervisor_lookup.record(places)
    supervisor_lookup.mark_alive(places)


def release(places: StatePaths) -> None:
    places.supervisor_process.unlink(missing_ok=True)
    supervisor_lookup.release_lock(places)
