"""Runs SQL queries in child processes (`project/sql_worker.py`), for the page and `headrace sql`.

Invariants: no more queries at once than children; a query that takes too long is killed with its
child, which is replaced; no query text appears on a command line.
"""

from __future__ import annotations

import contextlib
import json
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.config import Settings
from headrace.errors import Error, SqlError, error_from_dict

WORKERS = 2
WAIT_S = 10.0  # for a free child
START_S = 30.0  # a child imports its libraries first
GRACE_S = 1.0  # time for the child to cancel the query itself and report that


class QueryWorkers:
    """Owns the children, which start when first needed."""

    def __init__(self, settings: Settings, count: int = WORKERS) -> None:
        self._count = count
        self._command = (
            sys.executable,
            "-P",
            "-m",
            "headrace.project.sql_worker",
            str(settings.project),
            settings.profile,
        )
        self._free: queue.Queue[_Child | None] = queue.Queue()
        for _ in range(count):
            self._free.put(None)  # a slot without a child
        self._is_closed = threading.Event()

    def ask(
        self, what: str, timeout_s: float, *, wait_s: float = WAIT_S, **asked: Any
    ) -> dict[str, Any]:
        """Return the result, or raise the error from the child. `wait_s`: for a free child."""
        line = json.dumps({"what": what, "timeout_s": timeout_s, **asked})
        with self._borrow_child(wait_s) as child:
            reply = child.answer(line, timeout_s + GRACE_S)
            has_died = child.has_died
        if reply is None:
            raise worker_died_error() if has_died else too_slow(timeout_s)
        if "error" in reply:
            raise error_from_dict(reply["error"], SqlError)
        body = reply.get("ok")
        return body if isinstance(body, dict) else {}

    def close(self) -> None:
        self._is_closed.set()
        for _ in range(self._count):
            with contextlib.suppress(queue.Empty):
                child = self._free.get(timeout=1.0)
                if child is not None:
                    child.end()

    @contextlib.contextmanager
    def _borrow_child(self, wait_s: float) -> Iterator[_Child]:
        try:
            child = self._free.get(timeout=wait_s)
        except queue.Empty:
            raise Error(
                f"{self._count} queries are already running.",
                why="Running more queries at once would slow down the pipelines.",
                fix="Try again in a moment.",
                slug="too-many",
            ) from None
        try:
            if child is None or not child.is_alive:
                child = _Child(self._command)
            yield child
        finally:
            if child is not None and not child.is_alive:
                child.end()
                child = None
            self._free.put(child)
            if self._is_closed.is_set() and child is not None:
                child.end()


class _Child:
    """One process: a line in, a line out."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # its stderr is ours
        )
        self._content = b""  # received after the last line
        self._has_started = False
        self.has_died = False  # unexpectedly, during a query

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def answer(self, line: str, timeout_s: float) -> Mapping[str, Any] | None:
        """None if the child took too long (it is then killed) or has died."""
        try:
            self._has_started = self._has_started or self._read_line(START_S) is not None
            if not self._has_started:
                return None
            stdin = self._process.stdin
            assert stdin is not None  # noqa: S101 - asked for above
            stdin.write(line.encode() + b"\n")
            stdin.flush()
            content = self._read_line(timeout_s)
        except OSError:
            self.has_died = True
            self.end()
            return None
        reply = json.loads(content) if content is not None else None
        return reply if isinstance(reply, dict) else None

    def _read_line(self, timeout_s: float) -> bytes | None:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - asked for above
        deadline = time.monotonic() + timeout_s
        pieces = [self._content]
        while b"\n" not in pieces[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                self.end()
                return None
            pieces.append(stdout.read1(1 << 20))  # type: ignore[attr-defined]
            if not pieces[-1]:
                self.has_died = True
                self.end()
                return None
        line, _, self._content = b"".join(pieces).partition(b"\n")
        return line

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


def worker_died_error() -> SqlError:
    return SqlError(
        "The process that ran the query exited unexpectedly.",
        why="It may have run out of memory. For a query from the web page, the error output is in "
        "web.log; for a query from the command line, it is printed above.",
        fix="Read less data (add a WHERE on a partition column), or use Spark: headrace sql "
        "--spark",
        slug="sql-died",
    )


def too_slow(timeout_s: float) -> SqlError:
    return SqlError(
        f"The query was cancelled after {timeout_s:g} s.",
        fix="Read less data (add a WHERE on a partition column), or run headrace sql with a longer"
        " --timeout.",
        slug="sql-timeout",
    )
