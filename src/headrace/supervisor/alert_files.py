"""Reads alert rows from the files that drivers write for each batch, and stores the alerts.

Invariants: a batch is stored completely and once, even if it is written again; a file is deleted
only after its rows are in the store; an unreadable file does not block other queries. An alert with
`resolve_after` is resolved only if its query has worked all that time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from headrace.model.alerts import AlertRow
from headrace.model.state_paths import StatePaths
from headrace.supervisor.alert_topic_watch import AlertTopicWatch
from headrace.supervisor.store_writer import StoreWriter, Worked

logger = logging.getLogger(__name__)

TAKE_S = 1.0
FILES_PER_TICK = 50
FILES_AT_THE_END = 1_000
_NAME = re.compile(r"([0-9]{1,18})-([0-9a-f]{1,8})\.jsonl")


@dataclass(frozen=True, slots=True)
class WaitingFile:
    path: Path
    pipeline: str
    query: str
    batch: int
    life: str  # start of the query id: a different id counts its batches from 0
    at: float


class AlertFileReader:
    def __init__(self, places: StatePaths, history: StoreWriter, wall: Callable[[], float]) -> None:
        self._folder = places.alert_rows
        self._history = history
        self._wall = wall
        self._topics = AlertTopicWatch(places, history, wall)
        self._due = 0.0

    def take(self, worked_until: Worked, now: float) -> None:
        """Reads some files, the oldest of each query first; then resolves alerts by timeout."""
        if now < self._due:
            return
        self._due = now + TAKE_S
        self._topics.watch(now)
        waiting = interleave(list_waiting(self._folder))
        if self._take(waiting[:FILES_PER_TICK], now) and len(waiting) <= FILES_PER_TICK:
            # Only after all files: an unread row may keep an alert open.
            known = self._topics.limit_to_taken(worked_until)
            self._history.resolve_due(known, self._wall(), now)
        self._history.record_alert_changes(now)
        if len(waiting) > FILES_PER_TICK:
            self._due = now

    def take_last(self, now: float) -> None:
        """When the supervisor ends: reads the last rows of the ended runs."""
        self._take(interleave(list_waiting(self._folder))[:FILES_AT_THE_END], now)
        self._history.record_alert_changes(now)

    def _take(self, waiting: list[WaitingFile], now: float) -> bool:
        """False if some files remain: the store is unavailable, or a file cannot be read."""
        blocked: set[tuple[str, str]] = set()
        for file in waiting:
            name = (file.pipeline, file.query)
            if name in blocked:
                continue
            try:
                is_taken = self._take_file(file, now)
            except OSError as exc:
                # Later batches of the query must wait, or this one would count as outdated.
                blocked.add(name)
                logger.error("%s could not be read: %s", file.path, exc, extra=_about(file))
                continue
            if not is_taken:
                return False
        return not blocked

    def _take_file(self, file: WaitingFile, now: float) -> bool:
        try:
            rows = read(file)
        except ValueError as exc:
            aside = file.path.with_name(f"{file.path.name}.bad")
            file.path.replace(aside)
            logger.error("invalid alert file, renamed to %s: %s", aside, exc, extra=_about(file))
            return True
        if not self._history.take_rows(file.pipeline, file.query, rows, self._wall(), now):
            return False
        file.path.unlink(missing_ok=True)
        return True


def list_waiting(folder: Path) -> list[WaitingFile]:
    """The files in PIPELINE/QUERY folders, unordered."""
    waiting = []
    for path in folder.glob("*/*/*.jsonl"):
        if match := _NAME.fullmatch(path.name):
            try:
                at = path.stat().st_mtime
            except FileNotFoundError:
                continue
            pipeline, query = path.parts[-3:-1]
            waiting.append(WaitingFile(path, pipeline, query, int(match[1]), match[2], at))
    return waiting


def interleave(waiting: list[WaitingFile]) -> list[WaitingFile]:
    """Round-robin over the queries, so that a flood of one does not delay others; within a query by
    checkpoint and batch. Pure."""
    begun: dict[tuple[str, str, str], float] = {}
    for file in waiting:
        life = (file.pipeline, file.query, file.life)
        begun[life] = min(file.at, begun.get(life, file.at))
    queues: dict[tuple[str, str], list[WaitingFile]] = {}
    for file in sorted(
        waiting, key=lambda f: (begun[f.pipeline, f.query, f.life], f.life, f.batch)
    ):
        queues.setdefault((file.pipeline, file.query), []).append(file)
    return [file for turn in zip_longest(*queues.values()) for file in turn if file is not None]


def read(waiting: WaitingFile) -> list[AlertRow]:
    """ValueError if the file is not one complete batch."""
    with waiting.path.open("rb") as file:
        rows = [AlertRow.from_line(line.decode()) for line in file]
    if not rows:
        raise ValueError("it is empty")
    is_other = any(row.batch != waiting.batch for row in rows)
    if is_other or len({row.query_id for row in rows}) != 1:
        raise ValueError("its rows do not all belong to the batch in its name")
    return rows


def _about(file: WaitingFile) -> dict[str, str]:
    return {"pipeline": file.pipeline, "query": file.query}
