"""Where a query stands in the topics that it reads, from its checkpoint. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.checkpoints import layout
from headrace.model.gaps import Gap

Positions = dict[str, dict[int, int]]  # topic: partition: the record that comes next


def of(checkpoint: str) -> Positions | None:
    """By the last batch that is done; sources that are no topics are left out. None: it is not on a
    disk of this machine, so nothing is known."""
    path = _local(checkpoint)
    if path is None:
        return None
    batch = layout.last_committed(path)
    return at(path, batch) if batch is not None else {}


def are_behind(gaps: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the queries have passed all of these. Where nothing is known, nothing is passed."""
    found = [Gap.from_json(gap) for gap in gaps]
    stand = {checkpoint: _known(checkpoint) for checkpoint in {gap.checkpoint for gap in found}}
    return None not in stand.values() and all(
        gap.is_behind((stand[gap.checkpoint] or {}).get(gap.topic, {}).get(gap.partition))
        for gap in found
    )


def _known(checkpoint: str) -> Positions | None:
    """As `of`; None also where the last batch that is done cannot be read."""
    path = _local(checkpoint)
    batch = layout.last_committed(path) if path is not None else None
    if path is None or batch is None or not (path / "offsets" / str(batch)).is_file():
        return None
    return at(path, batch)


def done(checkpoint: Path) -> Iterator[tuple[Positions, float]]:
    """Of each batch that is done and still known, in order: up to where, and when it was done."""
    numbers = [int(p.name) for p in (checkpoint / "commits").glob("[0-9]*") if p.name.isdigit()]
    for batch in sorted(numbers):
        try:
            when = (checkpoint / "commits" / str(batch)).stat().st_mtime
        except FileNotFoundError:
            continue  # Spark is tidying up
        yield at(checkpoint, batch), when


def at(checkpoint: Path, batch: int) -> Positions:
    """By this batch; {} if it is not known any more."""
    try:
        text = (checkpoint / "offsets" / str(batch)).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    found: Positions = {}
    for line in layout.source_lines(text):
        found |= of_source(_object(line))
    return found


def first(checkpoint: Path | None, source: int) -> Positions:
    """Where this source of a query began; {} if it is no topic, or nothing is known of it."""
    if checkpoint is None:
        return {}
    try:
        text = (checkpoint / "sources" / str(source) / "0").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    return of_source(_object(text[text.find("{") :]))  # a zero byte and a version come before


def of_source(told: Mapping[str, object]) -> Positions:
    """As Spark writes a place in topics; what is none is left out."""
    found: Positions = {}
    for topic, partitions in told.items():
        if isinstance(partitions, dict) and all(str(p).isdigit() for p in partitions):
            found[topic] = {int(p): n for p, n in partitions.items() if isinstance(n, int)}
    return found


def _local(checkpoint: str) -> Path | None:
    parts = urlsplit(checkpoint)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(checkpoint)


def _object(line: str) -> dict[str, object]:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
