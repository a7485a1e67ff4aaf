"""Requests to the supervisor and its answers: one small file each way.

`leave`, `withdraw` and `answer_of` are for clients, the rest is for the supervisor.
Invariant: a file that is not a request is set aside with a warning; a request that was served is
removed, even if its answer could not be written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from pathlib import Path

from headrace.errors import StoreError
from headrace.json_file import read_json, write_json
from headrace.model.requests import Action, Reply, Request
from headrace.model.state_paths import StatePaths

logger = logging.getLogger(__name__)

POLL_S = 0.05
AT_ONCE_MAX = 50  # requests served in one tick
BYTES_MAX = 4 * 1024 * 1024  # a gap in each of some thousand partitions
ANSWERS_KEPT = 200
SET_ASIDE_KEPT = 20
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def leave(places: StatePaths, request: Request) -> None:
    write_json(places.requests / f"{request.id}.json", request.to_json())


def answer_of(places: StatePaths, id: str, timeout_s: float) -> Reply | None:
    deadline = time.monotonic() + timeout_s
    path = places.answers / f"{id}.json"
    while True:
        body = read_json(path)
        if body is not None:
            return Reply.from_json(body)
        if time.monotonic() >= deadline:
            return None
        time.sleep(POLL_S)


def waiting(places: StatePaths) -> list[Request]:
    """Oldest first; at most AT_ONCE_MAX. Requests answered before a crash are removed."""
    try:
        names = sorted(name for name in os.listdir(places.requests) if name.endswith(".json"))
    except FileNotFoundError:
        return []
    names = [name for name in names if not name.startswith(".")]
    found = []
    for name in names[:AT_ONCE_MAX]:
        path = places.requests / name
        request = _read(path)
        if request is None:
            _set_aside(path)
        elif (places.answers / name).exists():
            path.unlink(missing_ok=True)
        else:
            found.append(request)
    return sorted(found, key=lambda request: (request.at, request.id))


def answer(places: StatePaths, answer: Reply) -> None:
    """The answer is written first: after a crash in between, no request is served twice.

    OSError if it could not be written; the request is removed all the same.
    """
    try:
        write_json(places.answers / f"{answer.id}.json", answer.to_json())
    finally:
        withdraw(places, answer.id)


def withdraw(places: StatePaths, id: str) -> None:
    """For a client that found no supervisor."""
    with contextlib.suppress(OSError):
        (places.requests / f"{id}.json").unlink(missing_ok=True)


def prune(places: StatePaths) -> None:
    _keep_newest(places.answers, "*.json", ANSWERS_KEPT)
    _keep_newest(places.requests, "*.bad", SET_ASIDE_KEPT)


def _read(path: Path) -> Request | None:
    try:
        if path.stat().st_size > BYTES_MAX:
            return None
        body = read_json(path)
        if body is None:
            return None
        request = Request.from_json(body)
        plain = (request.id, request.what, request.by, request.pipeline, request.version)
        texts = [*plain, request.file, request.profile, *request.args]
        if not all(isinstance(text, str) for text in texts) or request.id != path.stem:
            return None
        if not _ID.fullmatch(request.id) or not isinstance(request.at, int | float):
            return None
        Action(request.what)
    except (StoreError, TypeError, ValueError, OSError):
        return None
    return request


def _set_aside(path: Path) -> None:
    if not path.exists():
        return
    logger.warning("%s is not a request; renamed to %s.bad", path.name, path.name)
    with contextlib.suppress(OSError):
        path.rename(path.with_name(path.name + ".bad"))


def _keep_newest(folder: Path, pattern: str, count: int) -> None:
    with contextlib.suppress(OSError):
        found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
        for path in found[:-count]:
            path.unlink(missing_ok=True)
