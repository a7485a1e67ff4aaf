"""Configures logging for all processes: UTC, one line, with pipeline, run and query.

Logs are for people; programs read events. Logs go to standard error, which the parent process
redirects to a file. `keep_short` truncates these files while their writers hold them open.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

LINE_MAX = 8000
_FIELDS = ("pipeline", "run", "query")
_about: ContextVar[dict[str, str] | None] = ContextVar("about", default=None)
_always: dict[str, str] = {}


def configure(
    *,
    format: str = "text",
    stream: TextIO | None = None,
    is_guest: bool = False,
    **about: str,
) -> None:
    """Call once, in main. `about` (pipeline=, run=) is added to every line of this process.
    `is_guest`: the process belongs to a script; leave Python's root logger to it."""
    _always.clear()
    _always.update(about)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(_add_about)
    handler.setFormatter(_Json() if format == "json" else _Text())
    ours = logging.getLogger("headrace")
    ours.setLevel(logging.INFO)
    ours.propagate = not is_guest
    top = ours if is_guest else logging.getLogger()
    for old in list(top.handlers):
        top.removeHandler(old)
    top.addHandler(handler)
    if not is_guest:
        top.setLevel(logging.WARNING)  # of other libraries only warnings


@contextlib.contextmanager
def about(**fields: str) -> Iterator[None]:
    """Adds fields to the lines logged inside: `with logs.about(pipeline=name): …`."""
    token = _about.set({**(_about.get() or {}), **fields})
    try:
        yield
    finally:
        _about.reset(token)


def _add_about(record: logging.LogRecord) -> bool:
    for name, value in {**_always, **(_about.get() or {})}.items():
        if not hasattr(record, name):
            setattr(record, name, value)
    return True


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{n}={getattr(record, n)}" for n in _FIELDS if getattr(record, n, None)]
        # On the first line only: the last line may be a command that users copy.
        first, *more = record.getMessage()[:LINE_MAX].split("\n")
        head = f"{_at(record)} {record.levelname.lower():7} {first}"
        line = "\n".join([f"{head}  [{' '.join(fields)}]" if fields else head, *more])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        body = {"at": _at(record), "level": record.levelname.lower(), "logger": record.name}
        body["text"] = record.getMessage()[:LINE_MAX]
        body.update({n: getattr(record, n) for n in _FIELDS if getattr(record, n, None)})
        if record.exc_info:
            body["trace"] = self.formatException(record.exc_info)
        return json.dumps(body, ensure_ascii=False, default=str)


def _at(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def keep_short(path: Path, bytes_max: int) -> bool:
    """Above the limit, copy the file to NAME.1 and truncate it; its writer appends (O_APPEND).
    Lines written between the two steps are lost."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > bytes_max:
            copy = path.with_name(path.name + ".1")
            with contextlib.suppress(OSError):  # on a full disk, make room without a copy
                shutil.copyfile(path, copy)
                copy.chmod(0o600)
            os.truncate(path, 0)
            return True
    return False
