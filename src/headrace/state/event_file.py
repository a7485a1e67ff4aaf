"""The one reader of a run's events file, which its driver may still be writing.

Used by the supervisor, the relay, the command line and the page. Invariant: only whole lines are
returned, and the work of one call is bounded. A position is a byte offset at the start of a line,
so a reader can store it and continue later.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path

from headrace.model.events import Event, EventKind

logger = logging.getLogger(__name__)

LINE_BYTES_MAX = 16 * 1024 * 1024
CHUNK_BYTES = 256 * 1024
_END_BYTES_MAX = 2 * LINE_BYTES_MAX  # at least one whole line, whatever its length
_BLOCK_BYTES = 1 << 20
_KIND = re.compile(rb'\{"at":[^,]{1,40},"event":"(\w+)"')  # as `Event.to_line` writes it


class EventFile:
    """A position in an events file. The file need not exist yet."""

    def __init__(self, path: Path, position: int = 0) -> None:
        self.path = path
        self.position = position
        self.is_at_end = False  # of what had been written at the last read
        self._reported: set[int] = set()  # each kind of problem once

    def lines(self, chunk_bytes: int = CHUNK_BYTES) -> list[tuple[int, bytes]]:
        """The next whole lines with their positions, about `chunk_bytes` of them."""
        content = self._next_bytes(chunk_bytes)
        found, begin = [], self.position
        for line in content.split(b"\n")[:-1]:
            found.append((begin, line))
            begin += len(line) + 1
        if not found and len(content) >= LINE_BYTES_MAX:
            self._report(logging.WARNING, f"skipped a line longer than {LINE_BYTES_MAX:,} bytes")
            begin += len(content)
        self.position = begin
        return found

    def events(
        self, kinds: Collection[EventKind] | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> list[Event]:
        """The next events; with `kinds`, only those."""
        lines = (line for _, line in self.lines(chunk_bytes))
        return list(_parse_lines(lines, kinds, partial(self._report, logging.INFO)))

    def remaining(self, kinds: Collection[EventKind] | None = None) -> Iterator[Event]:
        """All events up to the current end of the file."""
        self.is_at_end = False
        while not self.is_at_end:
            yield from self.events(kinds, _BLOCK_BYTES)

    def _next_bytes(self, chunk_bytes: int) -> bytes:
        """Reads on while there is no whole line, up to the limit of one."""
        self.is_at_end = True
        try:
            if os.stat(self.path).st_size <= self.position:
                return b""
            with self.path.open("rb") as file:
                file.seek(self.position)
                content = file.read(chunk_bytes)
                self.is_at_end = len(content) < chunk_bytes
                while not self.is_at_end and b"\n" not in content[-chunk_bytes:]:
                    if len(content) >= LINE_BYTES_MAX:
                        break
                    more = file.read(chunk_bytes)
                    self.is_at_end = len(more) < chunk_bytes
                    content += more
                return content
        except OSError:
            return b""  # not written yet, or removed with its run

    def _report(self, level: int, problem: str) -> None:
        if level not in self._reported:
            logger.log(level, "%s: %s", self.path, problem)
            self._reported.add(level)


def last_events(
    path: Path, lines_max: int, kinds: Collection[EventKind] | None = None
) -> list[Event]:
    """The events of the last `lines_max` lines. Lines that are not events are left out."""
    return list(_parse_lines(_last_lines(path, lines_max), kinds, lambda problem: None))


def _parse_lines(
    lines: Iterable[bytes], kinds: Collection[EventKind] | None, report: Callable[[str], None]
) -> Iterator[Event]:
    for line in lines:
        try:
            if event := parse_line(line, kinds):
                yield event
        except (ValueError, TypeError, RecursionError) as exc:
            # Its writer was killed within the line, or the disk was full.
            report(f"a line is not an event: {exc}")


def parse_line(line: bytes, kinds: Collection[EventKind] | None = None) -> Event | None:
    """None for an event of another kind, mostly without parsing it."""
    if not line.strip():
        return None
    if kinds is not None:
        kind = _KIND.match(line)
        if kind is not None and kind[1].decode() not in kinds:
            return None
    event = Event.from_line(line.decode())
    return event if kinds is None or event.kind in kinds else None


def _last_lines(path: Path, lines_max: int) -> list[bytes]:
    blocks: list[bytes] = []
    try:
        with path.open("rb") as file:
            start = size = file.seek(0, os.SEEK_END)
            lines = 0
            while start > 0 and lines <= lines_max and size - start < _END_BYTES_MAX:
                length = min(_BLOCK_BYTES, start)
                start -= length
                file.seek(start)
                blocks.append(file.read(length))
                lines += blocks[-1].count(b"\n")
    except OSError:
        return []
    found = b"".join(reversed(blocks)).split(b"\n")
    return found[1 if start else 0 : -1][-lines_max:]
