"""Metrics over the last minutes or hours, for rules with averages.

Invariant: bounded; a window is unknown until it has been observed for almost its whole length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import fmean

from headrace.model.rules import Windows

POINTS_MAX = 240  # per window: longer ones have fewer points per minute
COVERED = 0.9  # of its length
GAP_S = 30.0  # while it was unknown for longer, or for several steps, nothing is averaged
GAP_STEPS = 4
SERIES_MAX = 20_000

Key = tuple[str, str | None, str, float]  # pipeline ("": the project), query, metric, window


class Samples:
    """`needed`: the metrics and windows of all rules."""

    def __init__(self) -> None:
        self.needed: frozenset[tuple[str, float]] = frozenset()
        self._points: dict[Key, deque[tuple[float, float]]] = {}

    def need(self, windows: Iterable[tuple[str, float]]) -> None:
        self.needed = frozenset(windows)
        kept = {key: known for key, known in self._points.items() if key[2:] in self.needed}
        self._points = kept

    def add(self, key: Key, now: float, value: float | None) -> None:
        window_s, known = key[3], self._points.get(key)
        if value is None:
            return
        if known is None:
            if len(self._points) >= SERIES_MAX:
                return
            known = self._points[key] = deque()
        step_s = window_s / POINTS_MAX
        if known:
            passed_s = now - known[-1][0]
            if passed_s < step_s:
                return
            if passed_s > max(GAP_S, GAP_STEPS * step_s):
                known.clear()
        known.append((now, value))
        # One point older than the window stays: it shows that the window is covered.
        while len(known) > 1 and known[1][0] <= now - window_s:
            known.popleft()

    def forget(self, pipeline: str) -> None:
        self._points = {key: known for key, known in self._points.items() if key[0] != pipeline}

    def windows(self, pipeline: str, now: float) -> Windows | None:
        if not self.needed:
            return None

        def read(metric: str, query: str | None, function: str, window_s: float) -> float | None:
            known = self._points.get((pipeline, query, metric, window_s), deque())
            inside = [value for at, value in known if at > now - window_s]
            if not inside or now - known[0][0] < COVERED * window_s:
                return None
            if function == "avg":
                return fmean(inside)
            return min(inside) if function == "min" else max(inside)

        return Windows(read)
