"""Checks of single files in a checkpoint, used by `checkpoint_content` and `source_logs`.

Invariant: never raises on bad content, and limits the size of what it reads.
"""

from __future__ import annotations

import itertools
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

BYTES_MAX = 16 * 1024 * 1024  # larger than any offsets or commits file
RESTORE = "Restore the checkpoint from a backup."


class Problem(NamedTuple):
    slug: str
    text: str
    fix: str


def entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def numbered_entries(folder: Path) -> list[Path]:
    return [p for p in entries(folder) if re.fullmatch(r"0|[1-9][0-9]*", p.name)]


def first_gap(numbers: Sequence[int]) -> int | None:
    pairs = itertools.pairwise(numbers)
    return next((a + 1 for a, b in pairs if b != a + 1), None)


def text_of(file: Path) -> tuple[str, str | None]:
    """The text, or "" and the reason why it cannot be read."""
    try:
        if file.stat().st_size > BYTES_MAX:
            return "", f"it is larger than {BYTES_MAX} bytes"
        return file.read_bytes().decode("utf-8"), None
    except UnicodeDecodeError as exc:
        return "", f"it is not UTF-8 text (byte {exc.start})"
    except OSError as exc:
        return "", f"it cannot be read ({exc.strerror})"


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def json_object(text: str | bytes) -> dict[str, Any]:
    """{} if it is not a JSON object."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def is_json_object(text: str) -> bool:
    return text.strip().startswith("{") and is_json(text)


def checksum_mismatch(file: Path) -> Problem | None:
    """Hadoop's checksum file has "crc\\0", a chunk size, and a CRC-32 for each chunk. Spark cannot
    read a file that does not match it, and ignores a truncated checksum file."""
    crc = file.with_name(f".{file.name}.crc")
    try:
        if file.stat().st_size > BYTES_MAX:
            return None
        sums, content = crc.read_bytes(), file.read_bytes()
    except OSError:
        return None
    size = int.from_bytes(sums[4:8], "big")
    if len(sums) < 8 or sums[:4] != b"crc\0" or size == 0:
        return None
    chunks = [content[i : i + size] for i in range(0, len(content), size)]
    if b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks) == sums[8:]:
        return None
    what = f"{file} does not match its checksum {crc.name}: one of the two files was changed."
    fix = f"Restore both from a backup. If you edited {file.name} on purpose, run: rm {crc}"
    return Problem("checkpoint-crc-mismatch", what, fix)
