"""Deployed code: a copy of the project by content hash, so that a restart never deploys. The hash
covers the installed packages too: with another package, the same files are another version.

`up`, `run` and `check` take a copy; drivers run from it; `status` compares it with what is edited.
    versions/HASH/files/…   what was copied      versions/HASH/version.json   when, and from what
Invariant: a version is whole or not there, and never changes once it is.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace import jsonfile
from headrace.errors import ConfigError, StoreError
from headrace.model.places import Places

SUFFIXES = (".py", ".sql")
SETTINGS = "headrace.toml"
RECORD = "version.json"
SKIPPED = frozenset({"data", "checkpoints", "node_modules", "site-packages", "spark-warehouse"})
OUTSIDE = ".outside"  # for a script that is not in the project
HASH_LENGTH = 12
FILES_MAX = 5_000
BYTES_MAX = 64 * 1024 * 1024


def snapshot(
    project: Path, places: Places, include: Sequence[str] = (), outside: Path | None = None
) -> str:
    """Copy what belongs to the code and say its hash. `outside`: a script elsewhere, copied too."""
    sources = _sources(project, places, include)
    if outside is not None:
        sources[f"{OUTSIDE}/{outside.name}"] = outside
    contents = {name: path.read_bytes() for name, path in sources.items()}
    body = {
        "files": {name: _digest(content) for name, content in contents.items()},
        "packages": dict(installed()),
    }
    version = _digest(json.dumps(body, sort_keys=True).encode())[:HASH_LENGTH]
    if not places.version(version).exists():
        _write(places, version, contents, {"version": version, "at": time.time(), **body})
    return version


def code_path(places: Places, version: str, file: str) -> Path:
    """Where the deployed copy of a pipeline's file or script is."""
    name = f"{OUTSIDE}/{Path(file).name}" if Path(file).is_absolute() else file
    return places.code(version) / name


def differs(project: Path, places: Places, version: str, include: Sequence[str] = ()) -> list[str]:
    """What has changed since that deploy: files, and packages as `name 1.0 → 1.1`."""
    known = _record(places, version)
    now = {
        name: _digest(path.read_bytes())
        for name, path in _sources(project, places, include).items()
    }
    then = {n: d for n, d in known["files"].items() if not n.startswith(OUTSIDE)}
    changed = sorted(n for n in now.keys() | then.keys() if now.get(n) != then.get(n))
    return changed + _changed_packages(known["packages"])


def listed(places: Places) -> list[dict[str, Any]]:
    """Kept versions, newest last: version, at, files, packages."""
    if not places.versions.is_dir():
        return []
    names = [p.name for p in places.versions.iterdir() if not p.name.startswith(".")]
    found = [_record(places, name) for name in names if places.code(name).is_dir()]
    return sorted(found, key=lambda v: float(v["at"]))


def installed() -> Mapping[str, str]:
    """Packages of this Python: a new version of one can change an answer as an edit does.

    Without the folder that Python puts first for this one process: others would not find it there.
    """
    folders = sys.path if sys.flags.safe_path else sys.path[1:]
    return _installed(tuple((folder, _changed_at(folder)) for folder in folders))


@functools.lru_cache(maxsize=1)  # until a folder changes: the page outlives a `pip install`
def _installed(folders: tuple[tuple[str, int], ...]) -> Mapping[str, str]:
    found = list(metadata.distributions(path=[folder for folder, _ in folders]))
    return {d.name.lower(): d.version for d in reversed(found) if d.name}  # the first one counts


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _sources(project: Path, places: Places, include: Sequence[str]) -> dict[str, Path]:
    """Relative name -> file, in order of name."""
    found: dict[str, Path] = {}
    size = 0
    for path in (*_walk(project, places), *(p for g in include for p in project.glob(g))):
        if path.is_file():
            found[path.relative_to(project).as_posix()] = path
            size += path.stat().st_size
        if len(found) > FILES_MAX or size > BYTES_MAX:
            raise ConfigError(
                f"{project} is too large for a project: over {FILES_MAX} files or"
                f" {BYTES_MAX // 1024**2} MB of code.",
                why="its code is copied with every deploy, so that a restart is exact",
                where=str(project),
                fix="work in a folder of its own (headrace init NAME); keep data out of `include`",
                slug="project-too-large",
            )
    return dict(sorted(found.items()))


def _walk(project: Path, places: Places) -> Iterator[Path]:
    state = places.state.resolve()
    for folder, folders, files in os.walk(project):
        here = Path(folder)
        folders[:] = [f for f in folders if not _is_skipped(here / f, state)]
        for name in files:
            is_settings = name == SETTINGS and here == project
            if is_settings or (name.endswith(SUFFIXES) and not name.startswith(".")):
                yield here / name


def _is_skipped(folder: Path, state: Path) -> bool:
    name = folder.name
    if name.startswith((".", "__")) or name in SKIPPED:
        return True
    return folder.resolve() == state or (folder / "pyvenv.cfg").exists()


def _write(
    places: Places, version: str, contents: Mapping[str, bytes], record: Mapping[str, Any]
) -> None:
    """Beside its place first, then one rename: a reader never meets half a version."""
    places.versions.mkdir(parents=True, exist_ok=True)
    temp = Path(tempfile.mkdtemp(prefix=".", dir=places.versions))
    try:
        for name, content in contents.items():
            path = temp / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (temp / "files").mkdir(exist_ok=True)
        jsonfile.write_json(temp / RECORD, record)
        if not places.version(version).exists():
            os.rename(temp, places.version(version))
    except OSError:
        if not places.version(version).exists():  # somebody else made the same one: just as well
            raise
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def _record(places: Places, version: str) -> dict[str, Any]:
    """version.json; where it is damaged or gone, what its files themselves tell."""
    with contextlib.suppress(StoreError):
        body = jsonfile.read_json(places.version(version) / RECORD) or {}
        shapes = {"version": str, "at": int | float, "files": dict, "packages": dict}
        if all(isinstance(body.get(name), shape) for name, shape in shapes.items()):
            return body
    root = places.code(version)
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {
        "version": version,
        "at": root.stat().st_mtime if root.is_dir() else 0.0,
        "files": {p.relative_to(root).as_posix(): _digest(p.read_bytes()) for p in files},
        "packages": dict(installed()),  # unknown then: report no change
    }


def _changed_packages(then: Mapping[str, str]) -> list[str]:
    now = installed()
    names = sorted(n for n in now.keys() | then.keys() if now.get(n) != then.get(n))
    return [f"{n} {then.get(n, 'none')} → {now.get(n, 'none')}" for n in names]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
