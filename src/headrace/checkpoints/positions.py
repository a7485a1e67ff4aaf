"""Where a query stands in the topics that it reads, from its checkpoint. Reads only."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.checkpoints import layout

Positions = dict[str, dict[int, int]]  # topic: partition: the record that comes next


def of(checkpoint: Path) -> Positions:
    """By the last batch that is done; sources that are no topics are left out."""
    batch = layout.last_committed(checkpoint)
    try:
        text = (checkpoint / "offsets" / str(batch)).read_text("utf-8")
    except OSError:
        return {}
    found: Positions = {}
    for line in layout.source_lines(text):
        for topic, partitions in _object(line).items():
            if isinstance(partitions, dict) and all(str(p).isdigit() for p in partitions):
                found[topic] = {int(p): at for p, at in partitions.items() if isinstance(at, int)}
    return found


def _object(line: str) -> dict[str, object]:
    try:
        body = json.loads(line)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
