"""Deployed code: copies of the project by content hash, so that a restart never deploys. The hash
includes the installed packages.

`up`, `run` and `check` create a copy, drivers run from it, `status` compares it with the project.
    versions/HASH/files/…   the copied files     versions/HASH/version.json   time and hashes
Invariant: a version is written atomically and never changes.
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

from headrace import json_file
from headrace.errors import ConfigError, StoreError
from headrace.model.runs import Desired
from headrace.model.state_paths import StatePaths
from headrace.state import desired, run_folders

SUFFIXES = (".py", ".sql")
SETTINGS = "headrace.toml"
RECORD = "version.json"
SKIPPED = frozenset({"data", "checkpoints", "node_modules", "site-packages", "spark-warehouse"})
OUTSIDE = ".outside"  # for a script outside of the project
HASH_LENGTH = 12
KEPT_PER_PIPELINE = 10
KEPT_S = 86_400.0
FILES_MAX = 5_000
BYTES_MAX = 64 * 1024 * 1024


def snapshot(
    project: Path, places: StatePaths, include: Sequence[str] = (), outside: Path | None = None
) -> str:
    """Copy the code and return its hash. `outside` is a script outside of the project."""
    sources = _sources(project, places, include)
    if outside is not None:
        sources[f"{OUTSIDE}/{outside.name}"] = outside
    contents = {name: path.read_bytes() for name, path in sources.items()}
    body = {
        "files": {name: _digest(content) for name, content in contents.items()},
        "packages": dict(installed_packages()),
    }
    version = _digest(json.dumps(body, sort_keys=True).encode())[:HASH_LENGTH]
    if not _renew(places.version(version)):
        _write(places, version, contents, {"version": version, "at": time.time(), **body})
    return version


def names(places: StatePaths) -> set[str]:
    try:
        return set(os.listdir(places.versions))
    except OSError:
        return set()


def stamp(places: StatePaths, version: str) -> int | None:
    """Changes whenever a snapshot finds that this version already exists."""
    try:
        return (places.version(version) / RECORD).stat().st_mtime_ns
    except OSError:
        return None


def discard(places: StatePaths, version: str, known: int | None) -> None:
    """Remove a version, unless a pipeline needs it or its stamp is no longer the known one: then
    another command, such as `up`, is about to use it."""
    if version not in _needed(places) and stamp(places, version) == known:
        shutil.rmtree(places.version(version), ignore_errors=True)


def prune(places: StatePaths, now: float) -> list[str]:
    """Remove versions that no pipeline needs, and return them. Kept are those that run or should
    run, the last ten deployed of each pipeline, and everything younger than a day."""
    unneeded = (places.version(name) for name in names(places) - _needed(places))
    old = [path for path in unneeded if _is_old(path, now)]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return sorted(path.name for path in old)


def _needed(places: StatePaths) -> set[str]:
    needed: set[str] = set()
    for wanted in desired.read_all(places):
        former = Desired.from_json(wanted.former).version if wanted.former else ""
        needed |= {wanted.version, former, *wanted.previous[-KEPT_PER_PIPELINE:]}
    for specs in run_folders.specs(places).values():
        needed |= {spec.version for spec in specs if not run_folders.is_over(places, spec.run)}
        # `previous` does not list the version that a rollback replaced, but its runs do.
        newest = dict.fromkeys(spec.version for spec in reversed(specs))
        needed |= set(list(newest)[:KEPT_PER_PIPELINE])
    return needed


def _renew(path: Path) -> bool:
    """Renew the age and the stamp of an existing version, so that `prune` and `discard` keep it for
    the deployment."""
    try:
        os.utime(path)
        with contextlib.suppress(FileNotFoundError):
            os.utime(path / RECORD)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # it belongs to another user, so it cannot be renewed
    return True


def _is_old(path: Path, now: float) -> bool:
    try:
        return path.stat().st_mtime < now - KEPT_S
    except OSError:
        return False


def code_path(places: StatePaths, version: str, file: str) -> Path:
    name = f"{OUTSIDE}/{Path(file).name}" if Path(file).is_absolute() else file
    return places.code(version) / name


def differs(
    project: Path, places: StatePaths, version: str, include: Sequence[str] = ()
) -> list[str]:
    """Changes since that deploy: files, and packages as `name 1.0 → 1.1`."""
    known = _record(places, version)
    now = {
        name: _digest(path.read_bytes())
        for name, path in _sources(project, places, include).items()
    }
    then = {n: d for n, d in known["files"].items() if not n.startswith(OUTSIDE)}
    changed = sorted(n for n in now.keys() | then.keys() if now.get(n) != then.get(n))
    return changed + _changed_packages(known["packages"])


def list_versions(places: StatePaths) -> list[dict[str, Any]]:
    """Records of all versions (version, at, files, packages), newest last."""
    if not places.versions.is_dir():
        return []
    names = [p.name for p in places.versions.iterdir() if not p.name.startswith(".")]
    found = [_record(places, name) for name in names if places.code(name).is_dir()]
    return sorted(found, key=lambda v: float(v["at"]))


def installed_packages() -> Mapping[str, str]:
    """Versions of the installed packages, which change results like an edit does. Skips the first
    folder of sys.path, which is specific to this process."""
    folders = sys.path if sys.flags.safe_path else sys.path[1:]
    return _scan_packages(tuple((folder, _mtime_ns(folder)) for folder in folders))


@functools.lru_cache(maxsize=1)  # until a folder changes: the web process outlives an install
def _scan_packages(folders: tuple[tuple[str, int], ...]) -> Mapping[str, str]:
    found = list(metadata.distributions(path=[folder for folder, _ in folders]))
    # Reversed, because the first in the path wins.
    return {d.name.lower(): d.version for d in reversed(found) if d.name}


def _mtime_ns(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _sources(project: Path, places: StatePaths, include: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    size = 0
    for path in (*_walk(project, places), *(p for g in include for p in project.glob(g))):
        if path.is_file():
            found[path.relative_to(project).as_posix()] = path
            size += path.stat().st_size
        if len(found) > FILES_MAX or size > BYTES_MAX:
            raise ConfigError(
                f"The project {project} is too large: more than {FILES_MAX} files or"
                f" {BYTES_MAX // 1024**2} MB of code.",
                why="Every deploy copies the code, so that a restart runs the same code.",
                where=str(project),
                fix="Use a separate folder for the project (headrace init NAME), and keep data "
                "out of `include`.",
                slug="project-too-large",
            )
    return dict(sorted(found.items()))


def _walk(project: Path, places: StatePaths) -> Iterator[Path]:
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
    places: StatePaths, version: str, contents: Mapping[str, bytes], record: Mapping[str, Any]
) -> None:
    """Write to a temporary folder, then rename it."""
    places.versions.mkdir(parents=True, exist_ok=True)
    temp = Path(tempfile.mkdtemp(prefix=".", dir=places.versions))
    try:
        for name, content in contents.items():
            path = temp / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (temp / "files").mkdir(exist_ok=True)
        json_file.write_json(temp / RECORD, record)
        if not places.version(version).exists():
            os.rename(temp, places.version(version))
    except OSError:
        if not places.version(version).exists():  # another process may have written the same
            raise
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def _record(places: StatePaths, version: str) -> dict[str, Any]:
    """version.json; rebuilt from the files if it is damaged or missing."""
    with contextlib.suppress(StoreError):
        body = json_file.read_json(places.version(version) / RECORD) or {}
        shapes = {"version": str, "at": int | float, "files": dict, "packages": dict}
        if all(isinstance(body.get(name), shape) for name, shape in shapes.items()):
            return body
    root = places.code(version)
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {
        "version": version,
        "at": root.stat().st_mtime if root.is_dir() else 0.0,
        "files": {p.relative_to(root).as_posix(): _digest(p.read_bytes()) for p in files},
        "packages": dict(installed_packages()),  # unknown, so report no change
    }


def _changed_packages(then: Mapping[str, str]) -> list[str]:
    now = installed_packages()
    names = sorted(n for n in now.keys() | then.keys() if now.get(n) != then.get(n))
    return [f"{n} {then.get(n, 'none')} → {now.get(n, 'none')}" for n in names]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
