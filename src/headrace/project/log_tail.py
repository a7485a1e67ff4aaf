"""Reads log files that another process still writes: the last lines, then new ones.

Invariant: only whole lines are returned, and at most LINE_MAX characters of one.
"""

from __future__ import annotations

import os
from pathlib import Path

LINE_MAX = 20_000
_CHUNK = 1 << 20


class Tail:
    """A position in a file that need not exist yet, and may be truncated."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self.path = path
        self.position = position
        self._rest = b""

    @property
    def whole_position(self) -> int:
        """After the last whole line: where another Tail can continue."""
        return self.position - len(self._rest)

    def lines(self, *, whole: bool = True) -> list[str]:
        """Lines added since the last call. `whole=False` also takes a last one without an end."""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self.position:  # it was truncated
                    self.position, self._rest = 0, b""
                file.seek(self.position)
                content = file.read(_CHUNK)
        except FileNotFoundError:
            return []
        self.position += len(content)
        *done, self._rest = (self._rest + content).split(b"\n")
        if (not whole or len(self._rest) > LINE_MAX) and self._rest:
            done, self._rest = [*done, self._rest], b""
        return [line.decode("utf-8", "replace")[:LINE_MAX].rstrip("\r") for line in done]


def near_end(path: Path, most: int) -> int:
    """The position of the first whole line in the last `most` bytes."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size <= most:
                return 0
            file.seek(size - most)
            file.readline()
            return file.tell()
    except FileNotFoundError:
        return 0


def last_lines(path: Path, count: int) -> tuple[list[str], int]:
    """The last lines of a file, and the position after them."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start, content = size, b""
            while start > 0 and content.count(b"\n") <= count:
                start = max(0, start - 65_536)
                file.seek(start)
                content = file.read(size - start)
    except FileNotFoundError:
        return [], 0
    lines = content.decode("utf-8", "replace").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    return [line[:LINE_MAX].rstrip("\r") for line in lines[-count:] if count > 0], size
