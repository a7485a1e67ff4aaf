"""One supervisor for a project: a kernel lock on `supervisor.lock`, and a state folder of our own.

Invariant: the lock file is opened here only, and once: a process that closes any descriptor of a
file loses its POSIX locks on it.
"""

from __future__ import annotations

import fcntl
import os
import stat

from headrace import processes
from headrace.errors import SetupError
from headrace.jsonfile import write_json
from headrace.model.places import Places
from headrace.state import supervisors


def prepare_state(places: Places) -> None:
    """Who may write here may run code as us: requests and versions are taken from this folder."""
    places.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = places.state.stat()
    if found.st_uid != os.getuid():
        raise SetupError(
            f"The state folder belongs to user {found.st_uid}, and this is user {os.getuid()}.",
            why="Whoever owns it decides what runs.",
            where=str(places.state),
            fix="run headrace as that user, or set [project] state to a folder of your own",
            slug="state-owner",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SetupError(
            f"Others may write to the state folder (mode {stat.S_IMODE(found.st_mode):o}).",
            why="A file left there starts pipelines, and a pipeline is code.",
            where=str(places.state),
            fix=f"chmod 700 {places.state}",
            slug="state-owner",
        )
    for folder in (places.requests, places.answers, places.desired_folder, places.runs):
        folder.mkdir(mode=0o700, exist_ok=True)


def take(places: Places) -> int:
    """The descriptor that holds the lock; it is free again when this process is gone."""
    handle = os.open(places.supervisor_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(handle)
        owner = supervisors.running(places)
        whose = f"process {owner.pid}" if owner else "another process"
        raise SetupError(
            f"A supervisor runs for this project already: {whose}.",
            why="Two would start every pipeline twice.",
            where=str(places.supervisor_lock),
            fix="use the one that runs (headrace status), or end it: headrace down",
            slug="supervisor-running",
        ) from exc
    me = processes.identify(os.getpid())
    if me is not None:  # we live, so it is not
        write_json(places.supervisor_process, me.to_json())
    return handle


def release(places: Places, handle: int) -> None:
    places.supervisor_process.unlink(missing_ok=True)
    os.close(handle)
