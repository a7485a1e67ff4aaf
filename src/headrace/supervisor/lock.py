"""The lock of the one supervisor that a project has, and a state folder of our own."""

from __future__ import annotations

import os
import stat

from headrace.errors import SetupError
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


def take(places: Places) -> None:
    """Raises if a supervisor runs. The lock is free again when this process is gone."""
    owner = supervisors.running(places)  # by its record, if somebody removed the lock file
    is_other = owner is not None and owner.pid != os.getpid()
    if is_other or not supervisors.take_lock(places):
        owner = owner or supervisors.running(places)
        whose = f"process {owner.pid}" if owner else "another process"
        raise SetupError(
            f"A supervisor runs for this project already: {whose}.",
            why="Two would start every pipeline twice.",
            where=str(places.supervisor_lock),
            fix="use the one that runs (headrace status), or end it: headrace down",
            slug="supervisor-running",
        )
    supervisors.record(places)


def keep_record(places: Places) -> None:
    """Writes supervisor.json again if somebody removed or damaged it."""
    if places.state.is_dir() and supervisors.recorded(places) is None:
        supervisors.record(places)


def release(places: Places) -> None:
    places.supervisor_process.unlink(missing_ok=True)
    supervisors.release_lock(places)
