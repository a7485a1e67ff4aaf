"""Taking alert rows: the files that drivers leave a batch become alerts in the store.

Called by `loop.py` in a step of its own. Invariants: a batch is taken whole and once, however often
it is written; a file goes only after its rows are in the store; one that cannot be read never holds
up another query. An alert that is over by itself (`resolve_after`) is resolved only when its query
has worked all that time: a pipeline that is down proves nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from headrace.model.alerts import AlertRow
from headrace.model.places import Places
from headrace.store.alerts import Change
from headrace.supervisor.history import History, Worked
from headrace.supervisor.topics import TopicWatch

logger = logging.getLogger(__name__)

TAKE_S = 1.0
FILES_PER_TICK = 50
FILES_AT_THE_END = 1_000
TOLD_PER_BATCH = 20  # events; the rest is counted
_NAME = re.compile(r"([0-9]{1,18})-([0-9a-f]{1,8})\.jsonl")


@dataclass(frozen=True, slots=True)
class Left:
    """A file that waits to be taken."""

    path: Path
    pipeline: str
    query: str
    batch: int
    life: str  # the beginning of the query's id: another one counts its batches from 0
    at: float


class Taking:
    """Owned by the supervisor; keeps nothing but the time of the next look."""

    def __init__(self, places: Places, history: History, wall: Callable[[], float]) -> None:
        self._folder = places.alert_rows
        self._history = history
        self._wall = wall
        self._topics = TopicWatch(places, history, wall)
        self._due = 0.0

    def take(self, worked_until: Worked, now: float) -> None:
        """Some of what waits, the oldest of each query first; then what is over by itself."""
        if now < self._due:
            return
        self._due = now + TAKE_S
        self._topics.tell(self._tell, now)
        self._topics.watch(now)
        waiting = in_turn(left(self._folder))
        if self._take(waiting[:FILES_PER_TICK], now) and len(waiting) <= FILES_PER_TICK:
            # Only now: a row that still waits may say that it is not over.
            known = self._topics.bounded(worked_until)
            for pipeline, change in self._history.resolve_due(known, self._wall(), now):
                self._tell(pipeline, change, now)
        if len(waiting) > FILES_PER_TICK:
            self._due = now

    def take_last(self, now: float) -> None:
        """At the supervisor's end, so that the last words of a run that has ended are heard."""
        self._take(in_turn(left(self._folder))[:FILES_AT_THE_END], now)

    def _take(self, waiting: list[Left], now: float) -> bool:
        """False if some has to wait: the store cannot be used, or a file cannot be read."""
        held: set[tuple[str, str]] = set()
        for one in waiting:
            name = (one.pipeline, one.query)
            if name in held:
                continue
            try:
                is_taken = self._take_one(one, now)
            except OSError as exc:
                # Its later batches wait too: taken first, they would make this one look old.
                held.add(name)
                logger.error("%s cannot be taken: %s", one.path, exc, extra=_about(one))
                continue
            if not is_taken:
                return False
        return not held

    def _take_one(self, one: Left, now: float) -> bool:
        try:
            rows = read(one)
        except ValueError as exc:
            aside = one.path.with_name(f"{one.path.name}.bad")
            one.path.replace(aside)
            logger.error("no alert rows, set aside as %s: %s", aside, exc, extra=_about(one))
            return True
        changes = self._history.take_rows(one.pipeline, one.query, rows, self._wall(), now)
        if changes is None:
            return False
        one.path.unlink(missing_ok=True)
        for change in changes[:TOLD_PER_BATCH]:
            self._tell(one.pipeline, change, now)
        for is_opened in (True, False):
            more = sum(change.is_opened is is_opened for change in changes[TOLD_PER_BATCH:])
            if more:
                words = f"{more} more of {one.query} in batch {one.batch}"
                self._tell(one.pipeline, Change(is_opened, "", words), now)
        return True

    def _tell(self, pipeline: str, change: Change, now: float, at: float | None = None) -> None:
        kind = "alert_opened" if change.is_opened else "alert_resolved"
        logger.info("%s: %s", kind, change.title, extra={"pipeline": pipeline})
        self._history.event(at or self._wall(), pipeline, None, kind, change.title, now)


def left(folder: Path) -> list[Left]:
    """What waits below PIPELINE/QUERY, in no order."""
    found = []
    for path in folder.glob("*/*/*.jsonl"):
        if match := _NAME.fullmatch(path.name):
            try:
                at = path.stat().st_mtime
            except FileNotFoundError:
                continue
            pipeline, query = path.parts[-3:-1]
            found.append(Left(path, pipeline, query, int(match[1]), match[2], at))
    return found


def in_turn(waiting: list[Left]) -> list[Left]:
    """Of each query its batches in order, the lives of its checkpoint one after the other; queries
    take turns, so that none waits for the flood of another. Pure."""
    begun: dict[tuple[str, str, str], float] = {}
    for one in waiting:
        life = (one.pipeline, one.query, one.life)
        begun[life] = min(one.at, begun.get(life, one.at))
    queues: dict[tuple[str, str], list[Left]] = {}
    for one in sorted(waiting, key=lambda o: (begun[o.pipeline, o.query, o.life], o.life, o.batch)):
        queues.setdefault((one.pipeline, one.query), []).append(one)
    return [one for turn in zip_longest(*queues.values()) for one in turn if one is not None]


def read(one: Left) -> list[AlertRow]:
    """ValueError if it is not the whole of one batch."""
    with one.path.open("rb") as file:
        rows = [AlertRow.from_line(line.decode()) for line in file]
    if not rows:
        raise ValueError("it is empty")
    strange = next((row for row in rows if row.batch != one.batch), None)
    if strange or len({row.query_id for row in rows}) != 1:
        raise ValueError("its rows are of more than one batch, or of another than its name says")
    return rows


def _about(one: Left) -> dict[str, str]:
    return {"pipeline": one.pipeline, "query": one.query}
