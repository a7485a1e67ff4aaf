"""Which input files a file source has read, by the checkpoint's own logs. Reads only.

offsets/N names an entry of the source's log for batch N; that log (sources/0) names the files, with
the number of the entry that took each. So rows are counted from what Spark wrote down itself.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.checkpoints import checkpoint_content


@dataclass(frozen=True, slots=True)
class Read:
    path: str
    entry: int  # of the source's log


def entry_of(checkpoint: Path, batch: int) -> int:
    """How far into the source's log batch N reads. Spark keeps the newest hundred of these."""
    text = (checkpoint / "offsets" / str(batch)).read_text()
    (line,) = checkpoint_content.source_lines(text)
    return int(json.loads(line)["logOffset"])


def files(checkpoint: Path) -> list[Read]:
    """All that the source has taken so far, also for a batch that is not committed."""
    log = checkpoint / "sources" / "0"
    names = {path.name for path in log.iterdir()}
    compact = sorted(int(m[1]) for n in names if (m := re.fullmatch(r"(\d+)\.compact", n)))
    base = compact[-1] if compact else -1
    later = sorted(int(n) for n in names if n.isdigit() and int(n) > base)
    if later != list(range(base + 1, base + 1 + len(later))):
        raise ValueError(f"the source log {log} has gaps: {base}.compact, then {later}")
    found = _entries(log / f"{base}.compact") if compact else []
    for number in later:
        found += _entries(log / str(number))
    return found


def between(read: list[Read], after: int, upto: int) -> list[str]:
    """Paths of the entries after `after`, up to and with `upto`."""
    return [one.path for one in read if after < one.entry <= upto]


def _entries(file: Path) -> list[Read]:
    version, *lines = file.read_text().splitlines()
    if version != "v1":
        raise ValueError(f"{file} begins {version!r}, not v1")
    bodies = [json.loads(line) for line in lines if line]
    return [Read(unquote(urlsplit(b["path"]).path), int(b["batchId"])) for b in bodies]
