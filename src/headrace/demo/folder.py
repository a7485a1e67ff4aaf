"""The demo's folder: written once, then the user may edit it. Used by `headrace demo`.

Invariant: existing files are never overwritten; a folder that the demo did not write is refused.
"""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.config import DEV
from headrace.demo.paths import KAFKA, DemoPaths
from headrace.errors import ConfigError, ControlError, SetupError
from headrace.json_file import read_json, write_json

_PROJECT = Path(__file__).parent / "project"
PORT = 9092  # as project/headrace.toml has it
_FILES = {
    "headrace.toml": "headrace.toml",
    "pipelines/metrics.py": "pipelines/metrics.py",
    "customers.csv": "customers.csv",
    "README.md": "README.md",
    "gitignore": ".gitignore",  # a packager would apply the real name
}


def files(port: int = PORT) -> dict[str, str]:
    """Name in the folder -> text. `port` is Kafka's, for its profile."""
    found = {there: (_PROJECT / here).read_text("utf-8") for here, there in _FILES.items()}
    return {name: text.replace(f":{PORT}", f":{port}") for name, text in found.items()}


def prepare(folder: Path, profile: str = DEV, port: int = PORT) -> tuple[DemoPaths, bool, int]:
    """Write the project if it is not there. Returns (places, whether it is new, seed).

    A demo resumes in the profile in which it was started, since its alerts are counted."""
    places = DemoPaths(folder.resolve(), f"data/{KAFKA}" if profile == KAFKA else "data")
    marker = read_json(places.marker)
    was_kafka = marker.get("profile") == KAFKA if marker else profile == KAFKA
    if was_kafka != (profile == KAFKA):
        raise ConfigError(
            f"The demo in {folder} was started {'with' if was_kafka else 'without'} --kafka.",
            why="A demo must be resumed with the input that it was started with: files or Kafka.",
            where=str(places.folder),
            fix="Choose another folder, or resume this demo: "
            f"headrace demo {'--kafka ' * was_kafka}--dir {folder}",
            slug="demo-folder-taken",
        )
    if marker is None and _is_taken(places.folder):
        raise ConfigError(
            f"{folder} already exists, but was not created by headrace demo.",
            why="The demo uses only folders that it created itself.",
            where=str(places.folder),
            fix="Choose a new folder: headrace demo --dir DIR",
            slug="demo-folder-taken",
        )
    try:
        if marker is None or not marker.get("complete"):
            seed = secrets.randbelow(1 << 31) if marker is None else int(marker["seed"])
            _write(places, seed, profile, port)
            return places, True, seed
        places.incoming.mkdir(exist_ok=True)
    except OSError as exc:
        raise SetupError(
            f"Cannot write to {folder}: {exc.strerror or exc}.",
            where=str(exc.filename or folder),
            fix="Choose a folder that you can write to: headrace demo --dir DIR",
            slug="cannot-write",
        ) from exc
    return places, False, int(marker["seed"])


@contextmanager
def alone(places: DemoPaths) -> Iterator[None]:
    """One demo per folder; the kernel releases the lock when the process ends."""
    with places.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise ControlError(
                f"A demo is already running in {places.folder}.",
                why="Two generators would write the same files.",
                where=str(places.lock),
                fix="Stop that demo with Ctrl-C, or choose another folder: headrace demo --dir DIR",
                slug="demo-running",
            ) from exc
        yield


def _is_taken(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def _write(places: DemoPaths, seed: int, profile: str, port: int) -> None:
    # The marker first: a demo that is killed here can be resumed.
    marker = {"written_by": "headrace demo", "seed": seed, "profile": profile}
    write_json(places.marker, {**marker, "complete": False})
    for name, text in files(port).items():
        path = places.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(text, encoding="utf-8")
    places.incoming.mkdir(exist_ok=True)
    write_json(places.marker, {**marker, "complete": True})
