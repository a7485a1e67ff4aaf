"""Answers that are costly to make, kept for a few seconds: looks at many files, for many people.

One of them makes it, the others wait for that one. Invariant: never older than KEPT_S.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from headrace.web import jsontext

KEPT_S = 5.0


class Shelf:
    """Owns what was made, as it is sent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made: dict[str, tuple[float, bytes]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def answer(self, name: str, make: Callable[[], dict[str, Any]]) -> Response:
        with self._guard:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            at, content = self._made.get(name, (-KEPT_S, b""))
            if self._clock() >= at + KEPT_S:
                content = jsontext.encoded(make())
                self._made[name] = (self._clock(), content)
        return Response(content, media_type="application/json")
