"""How far each query has read, from its checkpoint.

A file source numbers its reads: offsets/N names the last number of batch N, sources/0/NUMBER lists
the files (every tenth is NUMBER.compact: all so far). Invariant: a file counts as read when the
batch that read it is committed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.checkpoints import checkpoint_content, committed_files
from headrace.config import Settings
from headrace.demo import outputs
from headrace.demo.paths import PIPELINE, DemoPaths
from headrace.errors import ConnectorError
from headrace.model.state_paths import StatePaths

FROM_INPUT = ("history", "heartbeats", "overloaded", outputs.QUARANTINE)
_TAIL_BYTES = 65_536


def pending(settings: Settings, demo: DemoPaths) -> list[str]:
    """Describe what is not processed yet; [] when all results are complete.

    In the order of the data flow: once the input of a query is complete, its output cannot grow.
    """
    arrived = {path.name for path in demo.incoming.glob("[!.]*")}
    found = [_unread(settings, query, arrived) for query in FROM_INPUT]
    found.append(unread_history(settings, demo))
    found.append(_unread(settings, "silent", _committed_names(demo.heartbeats)))
    rows = alert_rows(settings)
    found.append(f"{len(rows)} files with alert rows are not stored yet" if rows else None)
    return [words for words in found if words]


def unread_history(settings: Settings, demo: DemoPaths) -> str | None:
    return _unread(settings, "logins", _committed_names(demo.history))


def alert_rows(settings: Settings) -> list[Path]:
    """Files that the supervisor has not stored yet."""
    return list((StatePaths(settings.state).alert_rows / PIPELINE).glob("*/*.jsonl"))


def _unread(settings: Settings, query: str, arrived: set[str]) -> str | None:
    left = len(arrived - read_by(checkpoint(settings, query)))
    return f"{query} has {left} file{'s' * (left != 1)} to read" if left else None


def _committed_names(folder: Path) -> set[str]:
    try:
        return {Path(file.path).name for file in committed_files.files(folder)}
    except ConnectorError:
        return set()


def behind(settings: Settings, demo: DemoPaths) -> int:
    """Input files that the slowest query has not read yet."""
    newest = max((path.name for path in demo.incoming.glob("[!.]*")), default=None)
    if newest is None:
        return 0
    last = [last_read(checkpoint(settings, query)) for query in FROM_INPUT]
    return max(_number(newest) - (_number(name) if name else -1) for name in last)


def checkpoint(settings: Settings, query: str) -> Path:
    return Path(settings.checkpoint(PIPELINE, query))


def read_by(checkpoint: Path) -> set[str]:
    """Names of the files that the query's committed batches have read."""
    upto = _log_offset(checkpoint)
    if upto is None:
        return set()
    names: set[str] = set()
    try:
        for entry in _log(checkpoint / "sources" / "0", upto):
            names |= _names(entry.read_bytes())
    except FileNotFoundError:  # Spark is compacting its log; the next look succeeds
        return set()
    return names


def last_read(checkpoint: Path) -> str | None:
    """The newest file by name: sources read the oldest files first."""
    upto = _log_offset(checkpoint)
    folder = checkpoint / "sources" / "0"
    for path in (folder / f"{upto}", folder / f"{upto}.compact"):
        if upto is not None and path.exists():
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - _TAIL_BYTES))
                return max(_names(file.read()), default=None)
    return None


def _log_offset(checkpoint: Path) -> int | None:
    batch = checkpoint_content.last_committed_batch(checkpoint)
    if batch is None:
        return None
    try:
        text = (checkpoint / "offsets" / str(batch)).read_text("utf-8")
    except FileNotFoundError:
        return None
    lines = checkpoint_content.source_lines(text)
    match = re.fullmatch(r'\{"logOffset":(\d+)\}', lines[0].strip()) if lines else None
    return int(match[1]) if match else None


def _log(folder: Path, upto: int) -> Iterator[Path]:
    """The newest compact entry up to `upto`, and the entries after it."""
    numbers = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    compact = [int(m[1]) for n in numbers if (m := re.fullmatch(r"(\d+)\.compact", n))]
    base = max((n for n in compact if n <= upto), default=None)
    if base is not None:
        yield folder / f"{base}.compact"
    later = sorted(int(n) for n in numbers if n.isdigit())
    yield from (folder / str(n) for n in later if (base is None or n > base) and n <= upto)


def _names(content: bytes) -> set[str]:
    """From complete entries: {"path":"file:///…","timestamp":…,"batchId":…}, one per line."""
    names = set()
    for line in content.splitlines():
        if line.startswith(b"{"):
            body = json.loads(line)
            names.add(unquote(urlsplit(body["path"]).path).rpartition("/")[2])
    return names


def _number(name: str) -> int:
    digits = re.sub(r"\D", "", name)
    return int(digits) if digits else 0
