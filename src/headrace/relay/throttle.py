"""Limits how many notices a channel sends, so that a flood of alerts becomes a few messages."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable

from headrace.alerts.notices import GROUP_FROM

WINDOW_S = 60.0
PER_WINDOW_MAX = 60  # notices of a channel
SINGLES_MAX = GROUP_FROM  # notices about one subject; further alerts wait, and become one notice


class Throttle:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: deque[tuple[float, Hashable]] = deque(maxlen=PER_WINDOW_MAX)

    def note(self, subject: Hashable) -> None:
        """A notice about this subject was sent."""
        self._sent.append((self._clock(), subject))

    @property
    def wait_s(self) -> float:
        """Until the channel may send anything."""
        if len(self._sent) < PER_WINDOW_MAX:
            return 0.0
        return max(0.0, self._sent[0][0] + WINDOW_S - self._clock())

    def full_subjects(self) -> set[Hashable]:
        """Subjects with so many notices that the next one has to wait: until a window after the
        last of them, so that it stands for all alerts of that time."""
        after = self._clock() - WINDOW_S
        times: dict[Hashable, list[float]] = {}
        for at, subject in self._sent:
            times.setdefault(subject, []).append(at)
        return {
            subject
            for subject, sent in times.items()
            if sent[-1] > after
            and len([at for at in sent if at > sent[-1] - WINDOW_S]) >= SINGLES_MAX
        }
