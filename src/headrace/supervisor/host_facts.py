"""What rules know about this machine: disks, Headrace's own files, memory.

Invariant: bounded work, and at most once a minute. What cannot be read is left out.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import psutil

from headrace.config import Settings, local_path
from headrace.model.rules import Disk

DISKS_S = 60.0
FILES_S = 600.0
FILES_MAX = 20_000
WINDOW_S = 3600.0
WINDOW_S_MIN = 1800.0  # a shorter time says nothing about a trend
CGROUP = Path("/sys/fs/cgroup/memory.max")


class HostMonitor:
    """Remembers the free space of the last hour."""

    def __init__(self, settings: Settings) -> None:
        chosen = (settings.checkpoints, settings.results, settings.quarantine)
        self._state = settings.state
        self._folders = [settings.state, *(path for path in map(local_path, chosen) if path)]
        self._free: dict[int, deque[tuple[float, int]]] = {}
        self._disks_due = self._files_due = 0.0
        self.disks: tuple[Disk, ...] = ()
        self.own_bytes: int | None = None
        self.own_parts: dict[str, int] = {}
        self.memory_max = memory_limit()

    def measure(self, now: float) -> None:
        if now >= self._disks_due:
            self._disks_due = now + DISKS_S
            self.disks = tuple(self._measure_disks(now))
        if now >= self._files_due:
            self._files_due = now + FILES_S
            self.own_parts = sizes(self._state)
            self.own_bytes = sum(self.own_parts.values())

    def _measure_disks(self, now: float) -> Iterator[Disk]:
        seen = set[int]()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                there = _existing(folder)
                device = there.stat().st_dev
                if device in seen:
                    continue
                seen.add(device)
                usage = shutil.disk_usage(there)
                known = self._free.setdefault(device, deque())
                known.append((now, usage.free))
                while known[0][0] < now - WINDOW_S:
                    known.popleft()
                yield Disk(str(folder), usage.free, usage.total, full_in_s(known))


def full_in_s(known: Iterable[tuple[float, int]]) -> float | None:
    """At the rate of these measurements; None unless space was lost in each third of the time:
    files that are written and deleted again are no trend. Pure."""
    points = list(known)
    if len(points) < 4 or points[-1][0] - points[0][0] < WINDOW_S_MIN:
        return None
    thirds = [points[place * (len(points) - 1) // 3][1] for place in range(4)]
    if not all(a > b for a, b in pairwise(thirds)):
        return None
    lost = points[0][1] - points[-1][1]
    return points[-1][1] / (lost / (points[-1][0] - points[0][0]))


def sizes(folder: Path) -> dict[str, int]:
    """Of each file and folder in it, as far as FILES_MAX files go."""
    found: dict[str, int] = {}
    left = FILES_MAX
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda one: one.name):
            total = 0
            for size in _file_sizes(entry):
                total, left = total + size, left - 1
                if left <= 0:
                    break
            found[entry.name] = total
    return found


def _file_sizes(entry: os.DirEntry[str]) -> Iterator[int]:
    with contextlib.suppress(OSError):
        if not entry.is_dir(follow_symlinks=False):
            yield entry.stat(follow_symlinks=False).st_size
            return
        for inner in os.scandir(entry.path):
            yield from _file_sizes(inner)


def memory_limit() -> float:
    """Of the container, or of the machine."""
    total = float(psutil.virtual_memory().total)
    try:
        text = CGROUP.read_text().strip()
    except OSError:
        return total
    return min(total, float(text)) if text.isdigit() else total


def _existing(folder: Path) -> Path:
    return next((path for path in (folder, *folder.parents) if path.exists()), folder)
