"""Responses that are expensive to build, cached for a few seconds.

Concurrent requests for the same response wait for the one that builds it. Invariant: a response is
never older than CACHED_S.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from headrace.web import json_text

CACHED_S = 5.0


class Cache:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._cached: dict[str, tuple[float, bytes]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._locks_lock = threading.Lock()

    def answer(self, name: str, make: Callable[[], dict[str, Any]]) -> Response:
        with self._locks_lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            at, content = self._cached.get(name, (-CACHED_S, b""))
            if self._clock() >= at + CACHED_S:
                content = json_text.encode(make())
                self._cached[name] = (self._clock(), content)
        return Response(content, media_type="application/json")
