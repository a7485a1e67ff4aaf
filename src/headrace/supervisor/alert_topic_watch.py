"""Alerts whose rows arrive through a topic, which the relay reads.

Records the changes that the relay made, and opens an alert when rows stay unread or were deleted
unread. Invariant: an alert does not resolve by timeout while unread rows of its query may be in the
topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from headrace.model.alerts import OpenAlert, TopicAlerts
from headrace.model.progress_exports import NEWS_S
from headrace.model.runs import Wanted
from headrace.model.state_paths import StatePaths
from headrace.state import alert_topic_status, desired
from headrace.supervisor.store_writer import StoreWriter, Worked

LATE_S = 60.0  # a broker restarts within this time
RULE = "alert-rows"
RULE_OF_LOST = "alert-rows-lost"

Titles = dict[str, tuple[TopicAlerts, str]]  # alert key -> query and title


class AlertTopicWatch:
    def __init__(self, places: StatePaths, history: StoreWriter, wall: Callable[[], float]) -> None:
        self._places = places
        self._history = history
        self._wall = wall
        self._since = wall()  # earlier times in the file are from an earlier relay

    def watch(self, now: float) -> None:
        """One alert per query while its rows stay unread, and one for a day when rows were deleted
        unread."""
        topics, at = alert_topic_status.read(self._places), self._wall()
        waiting, lost = find_late(topics, self._since, at), find_lost(topics, at)
        rules = tuple(f"{rule}:" for rule in (RULE, RULE_OF_LOST))
        opened = {key for key in self._history.open_keys(now) if key.startswith(rules)}
        for key, (by, title) in {**waiting, **lost}.items():
            if key not in opened and (key in lost or self._should_run(by.pipeline)):
                rule = key.partition(":")[0]
                alert = OpenAlert(key, rule, by.pipeline, title, "error", by.query)
                self._history.open_alert(alert, at, now)
        for key in opened - waiting.keys() - lost.keys():
            self._history.resolve_alert(key, at, now)

    def limit_to_taken(self, worked_until: Worked) -> Worked:
        """Until when a query is known to have worked and its rows have been read."""
        return partial(_until, worked_until, alert_topic_status.read(self._places))

    def _should_run(self, pipeline: str) -> bool:
        wanted = desired.read(self._places, pipeline)
        return wanted is not None and wanted.wanted == Wanted.RUNNING


def find_late(topics: Sequence[TopicAlerts], since: float, at: float) -> Titles:
    """Queries whose rows have stayed unread for too long. Pure."""
    titles: Titles = {}
    for by in topics:
        if at - max(by.until or by.since, since) > LATE_S:
            why = by.problem or "the relay is not responding (see relay.log)"
            title = f"Alert rows from {by.query} in the topic {by.topic} are not being read: {why}"
            titles.setdefault(f"{RULE}:{by.pipeline}:{by.query}", (by, title))
    return titles


def find_lost(topics: Sequence[TopicAlerts], at: float) -> Titles:
    """Queries whose topic deleted unread rows within the last day. Pure."""
    titles: Titles = {}
    for by in topics:
        if by.lost_at is not None and at - by.lost_at < NEWS_S:
            deleted = f"{by.lost:,} rows in the topic {by.topic} were deleted before they were read"
            title = f"{deleted}: alerts from {by.query} may be missing or may stay open"
            titles.setdefault(f"{RULE_OF_LOST}:{by.pipeline}:{by.query}", (by, title))
    return titles


def _until(
    worked_until: Worked, topics: Sequence[TopicAlerts], pipeline: str, query: str
) -> float | None:
    until = worked_until(pipeline, query)
    mine = [by.until or 0.0 for by in topics if (by.pipeline, by.query) == (pipeline, query)]
    return until if until is None else min([until, *mine])
