"""The supervisor's part in alert rows that come by a topic: it tells what the relay has changed,
and opens an alert of its own when nobody takes the rows any more, or when some were gone before.

Owned by `taking.py`. Invariant: an alert that is over by itself is not resolved while rows of its
query may wait in the topic.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from headrace.model.alerts import ByTopic
from headrace.model.exports import NEWS_S
from headrace.model.places import Places
from headrace.model.runs import Wanted
from headrace.state import alerttopics, desired
from headrace.store.alerts import Change
from headrace.supervisor.history import History, Worked
from headrace.supervisor.situation import OpenAlert

TOLD_AT_ONCE = 20
LATE_S = 60.0  # a broker that is started anew is back by then
RULE = "alert-rows"
RULE_OF_LOST = "alert-rows-lost"

logger = logging.getLogger(__name__)

Tell = Callable[[str, Change, float, float], None]  # pipeline, change, now, at
Found = dict[str, tuple[ByTopic, str]]  # by the key of its alert: whose it is, and its title


class TopicWatch:
    def __init__(self, places: Places, history: History, wall: Callable[[], float]) -> None:
        self._places = places
        self._history = history
        self._wall = wall
        self._since = wall()  # what the file says of the time before is an earlier relay's

    def tell(self, tell: Tell, now: float) -> None:
        """The first of each pipeline; of a flood, how many more there were."""
        found = self._history.changed_by_topics(now)
        more: Counter[tuple[str, bool]] = Counter()
        seen: Counter[str] = Counter()
        for _, pipeline, at, change in found:
            seen[pipeline] += 1
            if seen[pipeline] <= TOLD_AT_ONCE:
                tell(pipeline, change, now, at)
            else:
                more[pipeline, change.is_opened] += 1
        for (pipeline, is_opened), count in more.items():
            tell(pipeline, Change(is_opened, "", f"{count:,} more"), now, found[-1][2])
        if found:
            self._history.told_of_topics(found[-1][0], now)

    def watch(self, now: float) -> None:
        """One alert a query whose rows nobody takes, resolved when they are taken again; one for a
        day when some were deleted before they were taken."""
        topics, at = alerttopics.read(self._places), self._wall()
        waiting, gone = late(topics, self._since, at), lost(topics, at)
        rules = tuple(f"{rule}:" for rule in (RULE, RULE_OF_LOST))
        opened = {key for key in self._history.open_keys(now) if key.startswith(rules)}
        for key, (by, title) in {**waiting, **gone}.items():
            if key not in opened and (key in gone or self._should_run(by.pipeline)):
                alert = OpenAlert(key, key.partition(":")[0], title, "error", by.query)
                self._history.open_alert(by.pipeline, alert, at, now)
        for key in opened - waiting.keys() - gone.keys():
            self._history.resolve_alert(key, at, now)

    def bounded(self, worked_until: Worked) -> Worked:
        """Until when a query is known to have worked, and its rows to have been taken."""
        return partial(_until, worked_until, alerttopics.read(self._places))

    def _should_run(self, pipeline: str) -> bool:
        wanted = desired.read(self._places, pipeline)
        return wanted is not None and wanted.wanted == Wanted.RUNNING


def late(topics: Sequence[ByTopic], since: float, at: float) -> Found:
    """By the key of its alert: whose rows have waited too long, and its title. Pure."""
    found: Found = {}
    for by in topics:
        waits_s = at - max(by.until or by.since, since)
        if waits_s > LATE_S:
            why = by.problem or "the relay says nothing (relay.log)"
            title = f"Alert rows of {by.query} wait in the topic {by.topic}: {why}"
            found.setdefault(f"{RULE}:{by.pipeline}:{by.query}", (by, title))
    return found


def lost(topics: Sequence[ByTopic], at: float) -> Found:
    """Likewise: whose topic has lost rows that nobody had taken, for a day. Pure."""
    found: Found = {}
    for by in topics:
        if by.lost_at is not None and at - by.lost_at < NEWS_S:
            title = (
                f"{by.lost:,} rows of the topic {by.topic} were deleted before they were taken:"
                f" alerts of {by.query} may be missing, or open for good"
            )
            found.setdefault(f"{RULE_OF_LOST}:{by.pipeline}:{by.query}", (by, title))
    return found


def _until(
    worked_until: Worked, topics: Sequence[ByTopic], pipeline: str, query: str
) -> float | None:
    until = worked_until(pipeline, query)
    mine = [by.until or 0.0 for by in topics if (by.pipeline, by.query) == (pipeline, query)]
    return until if until is None else min([until, *mine])
