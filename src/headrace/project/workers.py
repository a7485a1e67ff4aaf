"""Children that answer questions over data: see `project/worker.py`, which is what they run.

The page and `headrace sql` ask this way. Invariants: no more questions at once than children; one
that takes too long is killed with its child, and a new one is started; nothing of a question is on
a command line.
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
from headrace.errors import Error, SqlError, revived

WORKERS = 2
WAIT_S = 10.0  # for one of them to be free
START_S = 30.0  # a child reads its libraries first, on a busy machine for some seconds
GRACE_S = 1.0  # to end a question by itself, and say so


class Workers:
    """Owns the children; started when first needed."""

    def __init__(self, settings: Settings, count: int = WORKERS) -> None:
        self._count = count
        self._command = (
            sys.executable,
            "-P",
            "-m",
            "headrace.project.worker",
            str(settings.project),
            settings.profile,
        )
        self._free: queue.Queue[_Child | None] = queue.Queue()
        for _ in range(count):
            self._free.put(None)  # a place, without a child in it yet
        self._is_closed = threading.Event()

    def ask(
        self, what: str, timeout_s: float, *, wait_s: float = WAIT_S, **asked: Any
    ) -> dict[str, Any]:
        """The answer; raises the error that the child told. `wait_s`: for a child to be free."""
        line = json.dumps({"what": what, "timeout_s": timeout_s, **asked})
        with self._one(wait_s) as child:
            told = child.answer(line, timeout_s + GRACE_S)
            has_died = child.has_died
        if told is None:
            raise died() if has_died else too_slow(timeout_s)
        if "error" in told:
            raise revived(told["error"], SqlError)
        body = told.get("ok")
        return body if isinstance(body, dict) else {}

    def close(self) -> None:
        self._is_closed.set()
        for _ in range(self._count):
            with contextlib.suppress(queue.Empty):
                child = self._free.get(timeout=1.0)
                if child is not None:
                    child.end()

    @contextlib.contextmanager
    def _one(self, wait_s: float) -> Iterator[_Child]:
        try:
            child = self._free.get(timeout=wait_s)
        except queue.Empty:
            raise Error(
                f"{self._count} questions are being answered already.",
                why="More at once would take the machine from the pipelines.",
                fix="ask again in a moment",
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
            start_new_session=True,  # its errors go where ours go: into the log
        )
        self._content = b""  # received after the last line
        self._has_started = False
        self.has_died = False  # of a question, by itself

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def answer(self, line: str, timeout_s: float) -> Mapping[str, Any] | None:
        """None: it took too long, or died of it; then it is ended."""
        try:
            self._has_started = self._has_started or self._said(START_S) is not None
            if not self._has_started:
                return None
            stdin = self._process.stdin
            assert stdin is not None  # noqa: S101 - asked for above
            stdin.write(line.encode() + b"\n")
            stdin.flush()
            content = self._said(timeout_s)
        except OSError:
            self.has_died = True
            self.end()
            return None
        told = json.loads(content) if content is not None else None
        return told if isinstance(told, dict) else None

    def _said(self, timeout_s: float) -> bytes | None:
        """The next line."""
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


def died() -> SqlError:
    return SqlError(
        "The process that answers questions ended while it worked on this one.",
        why="It may have run out of memory. Its error output is in web.log for a question from the"
        " page, and above for one from the command line.",
        fix="ask for less (a WHERE on a partition column), or ask Spark: headrace sql --spark",
        slug="sql-died",
    )


def too_slow(timeout_s: float) -> SqlError:
    return SqlError(
        f"There was no answer within {timeout_s:g} s, so the question was ended.",
        fix="ask for less (a WHERE on a partition column), or use headrace sql with a longer"
        " --timeout",
        slug="sql-timeout",
    )
