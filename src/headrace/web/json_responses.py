"""JSON responses: valid in browsers (NaN and infinity become null), and cached if expensive."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

CACHED_S = 5.0


def encode(body: Any) -> bytes:
    """ASCII, so that lone surrogates do no harm."""
    try:
        text = json.dumps(body, allow_nan=False, separators=(",", ":"), default=str)
    except ValueError:
        text = json.dumps(_finite(body), allow_nan=False, separators=(",", ":"), default=str)
    return text.encode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def respond(content: bytes) -> Response:
    return Response(content, media_type="application/json")


class Cache:
    """Concurrent requests for the same response wait for the one that builds it. Invariant: a
    response is never older than CACHED_S."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[float, bytes]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._locks_lock = threading.Lock()

    def answer(self, name: str, make: Callable[[], dict[str, Any]]) -> Response:
        with self._locks_lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            at, content = self._cached.get(name, (-CACHED_S, b""))
            if time.monotonic() >= at + CACHED_S:
                content = encode(make())
                self._cached[name] = (time.monotonic(), content)
        return respond(content)
