"""The demo's input, read by plain Python: the lines, and the generator's record of them.

The count compares results with this. Invariant: a line is a log if and only if it is UTF-8, one
JSON object, and every field has its type; all other lines are malformed.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import Error

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TYPES: dict[str, tuple[type, ...]] = {
    "timestamp": (str,),
    "customer_id": (int,),
    "event_type": (str,),
    "metric": (str,),
    "level": (str,),
    "cluster_id": (int,),
    "load": (int, float),
}


class LoggedLine(NamedTuple):
    """One valid line. `at` is in microseconds since 1970."""

    at: int
    customer_id: int | None
    event_type: str | None
    metric: str | None
    level: str | None
    cluster_id: int | None
    load: float | None

    @property
    def is_login(self) -> bool:
        return self.metric == "login"

    @property
    def is_beat(self) -> bool:
        return self.event_type == "clusterHeartbeat"


def log_of(line: bytes) -> LoggedLine | None:
    """None if the line is malformed."""
    try:
        body = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    for name, kinds in _TYPES.items():
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            return None
    try:
        at = datetime.fromisoformat(str(body.get("timestamp")))
    except ValueError:
        return None
    values = [body.get(name) for name in LoggedLine._fields[1:]]
    return LoggedLine((at - _EPOCH) // _MICROSECOND, *values)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def entry_from_file(path: Path) -> dict[str, Any]:
    """The record of a file, computed from the file. It does not know which overloads began."""
    logs = [log_of(line) for line in lines_of(path)]
    good = [log for log in logs if log is not None]
    return {
        "file": path.name,
        "lines": len(logs),
        "malformed": len(logs) - len(good),
        "logins": sum(log.is_login for log in good),
        "heartbeats": sum(log.is_beat for log in good),
        "overloads": None,
    }


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Complete lines only: the generator may be writing the next one."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    for line in content[: content.rfind(b"\n") + 1].splitlines():
        yield json.loads(line)


def input_files(incoming: Path, account: Path) -> list[Path]:
    """Every file of the generator, in order. Raises if files are missing or were added."""
    recorded = {str(entry["file"]): int(entry["lines"]) for entry in entries(account)}
    there = {p.name for p in incoming.iterdir() if not p.name.startswith(".")}
    missing, added = sorted(recorded.keys() - there), sorted(there - recorded.keys())
    if missing or added:
        first = missing[0] if missing else added[0]
        raise Error(
            f"The input cannot be counted: {first} {'is missing' if missing else 'was added'}.",
            why="The folder does not match the generator's record (missing files: "
            f"{len(missing)}, added files: {len(added)}).",
            where=str(incoming),
            fix="Start a new demo in another folder: headrace demo --dir DIR",
            slug="demo-input-changed",
        )
    return [incoming / name for name in sorted(recorded)]


def customers(path: Path) -> dict[int, tuple[str, str]]:
    """customer_id -> name and plan."""
    with path.open(encoding="utf-8", newline="") as file:
        return {int(r["customer_id"]): (r["customer"], r["plan"]) for r in csv.DictReader(file)}
