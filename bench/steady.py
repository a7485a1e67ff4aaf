"""Measuring a running query over steady batches, from one commit to another.

Start-up is left out: measuring begins after the first batches and some seconds of warm-up, at the
moment a batch is committed, and ends at the moment another one is. So no half batch is counted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import consumed, tree
from bench.feed import Feed
from bench.sides import Running
from headrace.checkpoints import checkpoint_content

WARM_BATCHES = 5
START_S = 180.0  # to the first commit
BATCH_S = 60.0  # to the next one
POLL_S = 0.005
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment right after a commit."""

    batch: int
    entry: int  # of the source's log: what this batch and those before it have read
    at: float
    cpu_s: dict[str, float]


@dataclass(frozen=True, slots=True)
class Span:
    begin: Mark
    end: Mark
    memory_mb: float


def measure(running: Running, seconds: float) -> Span:
    await_commit(running, 0, START_S)
    warm_until = time.monotonic() + warm_s(seconds)
    await_commit(running, WARM_BATCHES - 1, BATCH_S * WARM_BATCHES)
    _wait_until(running, warm_until)
    return window(running, seconds)


def window(running: Running, seconds: float) -> Span:
    """The same for a query that is warm already."""
    begin = _mark(running)
    _wait_until(running, begin.at + seconds)
    memory_mb = tree.memory_mb(running.root)
    return Span(begin, _mark(running), memory_mb)


def warm_s(seconds: float) -> float:
    """The JVM still compiles during the first seconds, more on one run than on the next."""
    return min(20.0, seconds / 3)


def raw(span: Span, feed: Feed, checkpoint: Path) -> dict[str, Any]:
    """The figures of a span, with rows as the checkpoint's own logs tell them."""
    paths = consumed.between(consumed.files(checkpoint), span.begin.entry, span.end.entry)
    used = {
        role: round(total - span.begin.cpu_s.get(role, 0.0), 2)
        for role, total in sorted(span.end.cpu_s.items())
    }
    return {
        "rows": feed.rows(paths),
        "batches": span.end.batch - span.begin.batch,
        "seconds": round(span.end.at - span.begin.at, 3),
        "cpu_s": round(sum(used.values()), 2),
        "cpu_by_role": used,
        "memory_mb": round(span.memory_mb),
    }


def await_commit(running: Running, batch: int, timeout_s: float) -> None:
    """Until batch `batch` is committed; looked at every few milliseconds."""
    file = running.checkpoint / "commits" / str(batch)
    deadline = time.monotonic() + timeout_s
    look_at = time.monotonic() + LOOK_S
    while not file.exists():
        now = time.monotonic()
        if now > deadline:
            why = f"batch {batch} was not committed within {timeout_s:.0f} s"
            raise TimeoutError(f"{why} (or the input ran out):\n{running.logs()}")
        if now > look_at:
            running.require_alive()
            look_at = now + LOOK_S
        time.sleep(POLL_S)


def newest(running: Running) -> int:
    found = checkpoint_content.last_committed_batch(running.checkpoint)
    return -1 if found is None else found


def _mark(running: Running) -> Mark:
    batch = newest(running) + 1
    await_commit(running, batch, BATCH_S)
    at, used = time.monotonic(), tree.cpu_s(running.root)
    return Mark(batch, consumed.entry_of(running.checkpoint, batch), at, used)


def _wait_until(running: Running, moment: float) -> None:
    while (left := moment - time.monotonic()) > 0:
        running.require_alive()
        time.sleep(min(LOOK_S, left))
