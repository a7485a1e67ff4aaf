"""The position of a query in the topics that it reads, from its checkpoint. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.checkpoints import checkpoint_content
from headrace.checkpoints.file_checks import json_object, numbered_entries
from headrace.config import local_path
from headrace.model.gaps import Gap

Positions = dict[str, dict[int, int]]  # topic: partition: next offset


def read(checkpoint: str) -> Positions | None:
    """After the last committed batch, without sources that are not topics. None if the checkpoint
    is not on a local disk."""
    path = local_path(checkpoint)
    if path is None:
        return None
    batch = checkpoint_content.last_committed_batch(path)
    return at(path, batch) if batch is not None else {}


def are_behind(gaps: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the queries have passed all these gaps; False if a position is unknown."""
    found = [Gap.from_json(gap) for gap in gaps]
    positions = {path: _read_strict(path) for path in {gap.checkpoint for gap in found}}
    return None not in positions.values() and all(
        gap.is_behind((positions[gap.checkpoint] or {}).get(gap.topic, {}).get(gap.partition))
        for gap in found
    )


def _read_strict(checkpoint: str) -> Positions | None:
    """Like `read`; None also if the last committed batch cannot be read."""
    path = local_path(checkpoint)
    batch = checkpoint_content.last_committed_batch(path) if path is not None else None
    if path is None or batch is None or not (path / "offsets" / str(batch)).is_file():
        return None
    return at(path, batch)


def done(checkpoint: Path) -> Iterator[tuple[Positions, float]]:
    """End position and commit time of each batch that is still in the checkpoint, in order."""
    for batch in sorted(int(path.name) for path in numbered_entries(checkpoint / "commits")):
        try:
            when = (checkpoint / "commits" / str(batch)).stat().st_mtime
        except FileNotFoundError:
            continue  # Spark deletes old entries
        yield at(checkpoint, batch), when


def at(checkpoint: Path, batch: int) -> Positions:
    """After this batch; {} if it is no longer in the checkpoint."""
    found: Positions = {}
    for line in checkpoint_content.source_lines(_read_text(checkpoint / "offsets" / str(batch))):
        found |= from_json(json_object(line))
    return found


def first(checkpoint: Path | None, source: int) -> Positions:
    """The start of a source; {} if it is not a topic, or unknown."""
    text = _read_text(checkpoint / "sources" / str(source) / "0") if checkpoint else ""
    return from_json(json_object(text[text.find("{") :]))  # after a zero byte and a version


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def from_json(offsets: Mapping[str, object]) -> Positions:
    """From Spark's JSON; entries that are not topics are left out."""
    found: Positions = {}
    for topic, partitions in offsets.items():
        if isinstance(partitions, dict) and all(str(p).isdigit() for p in partitions):
            found[topic] = {int(p): n for p, n in partitions.items() if isinstance(n, int)}
    return found
