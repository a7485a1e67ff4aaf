"""The queries of this run: started one by one, watched together, ended together.

A query enters by `start` (a pipeline's) or `enter` (a script's own), always after its checkpoint is
locked and known to be its own. Spark's listener adds how it ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.checkpoints import identity, layout, sinks
from headrace.checkpoints.problems import Problem
from headrace.driver import epochs, facts, fresh, listener, lock
from headrace.driver.counts import Counts
from headrace.driver.events import EventsFile
from headrace.driver.examples import Examples
from headrace.driver.inputs import Inputs
from headrace.driver.outages import Outages
from headrace.driver.written import Written
from headrace.errors import CheckpointError
from headrace.model.events import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


NEWS_LOST_S = 2.0
HARMLESS = frozenset({"checkpoint-stray-file"})  # Spark passes over names that are no numbers


@dataclass(frozen=True, slots=True)
class Watched:
    """A started query, under the name people know it by."""

    name: str
    query: StreamingQuery
    checkpoint: str | None  # None: it has none that lasts
    run_id: str = field(init=False)  # asked once: the loop compares it ten times a second
    epochs: epochs.Epochs | None = field(init=False)  # of a continuous query

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_id", str(self.query.runId))
        object.__setattr__(self, "epochs", epochs.of(self.query))

    def is_over(self) -> bool:
        """Ended, and without a failure that somebody has still to look at."""
        return not self.query.isActive and bool(self.query._jsq.exception().isEmpty())

    def has_begun(self) -> bool:
        """A batch has ended, or there was nothing to do yet."""
        status: Any = self.query.status
        return self.query.lastProgress is not None or status["message"].startswith("Waiting")

    def last_committed(self) -> int | None:
        folder = lock.local_path(self.checkpoint) if self.checkpoint else None
        if folder is not None:
            return layout.last_committed(folder)
        if self.epochs is not None:
            return self.epochs.last
        progress = self.query.lastProgress
        return int(progress["batchId"]) if progress else None

    def batch_in_doubt(self) -> int | None:
        """The batch that was being worked on: planned but not committed, or the one to come."""
        folder = lock.local_path(self.checkpoint) if self.checkpoint else None
        if folder is None:
            return None
        found = layout.read(folder)
        planned = found.offsets[-1] if found.offsets else None
        committed = found.commits[-1] if found.commits else None
        if planned is not None and planned != committed:
            return planned
        return 0 if committed is None else committed + 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Whose checkpoint it is: what is recorded beside it before a query starts on it."""

    project: str
    pipeline: str
    query: str
    is_named: bool = True  # False: Headrace invented the name, so it proves nothing
    sink: Path | None = None  # the folder of a file sink on a disk of this machine
    fingerprint: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Fleet:
    spark: SparkSession | None
    events: EventsFile
    watched: list[Watched] = field(default_factory=list)
    terminated: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    progressed_at: dict[str, float] = field(default_factory=dict)  # by run id, on a steady clock
    heard_at: dict[str, float] = field(default_factory=dict)  # the same, idle moments as well
    written: Written = field(default_factory=Written)
    inputs: Inputs = field(default_factory=Inputs)
    outages: Outages = field(init=False)
    examples: Examples = field(default_factory=Examples)
    counts: Counts = field(init=False)
    is_closed: bool = False  # the run is ending: nothing may be started any more
    _claimed: set[str] = field(default_factory=set)  # checkpoints of queries about to start
    _folders: dict[str, Path] = field(default_factory=dict)  # of checkpoints here, by query
    _inactive: dict[str, float] = field(default_factory=dict)
    _sessions: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.outages = Outages(self.events)
        self.counts = Counts(self.written)

    def attach(self, spark: SparkSession) -> None:
        """From now on this session's events are written down. Each session has its own queries."""
        self.spark = spark
        session_id = str(spark._jsparkSession.sessionUUID())
        if session_id not in self._sessions:
            self._sessions.add(session_id)
            listener.add(
                spark, self.events, self.note_terminated, self.note_progress, self.note_idle
            )

    def note_terminated(self, run_id: str, error: str | None, error_class: str | None) -> None:
        self.terminated[run_id] = (error, error_class)
        self.progressed_at.pop(run_id, None)
        self.heard_at.pop(run_id, None)

    def note_progress(self, query: str, progress: Mapping[str, Any]) -> dict[str, Any]:
        """-> what a `progressed` event says beside Spark's own progress"""
        run_id, folder = str(progress.get("runId")), self._folders.get(query)
        self.progressed_at[run_id] = self.heard_at[run_id] = time.monotonic()
        java = next((one.query._jsq for one in self.all() if one.run_id == run_id), None)
        # First what is gone with the next batch.
        self.look_at_inputs(run_id)
        if changes := self.inputs.changes(query, progress, folder):
            self.events.tell(Kind.INPUTS_CHANGED, query, changes)
        told = facts.of_batch(progress)
        examples = self.examples.of(query, told["counts"], progress, java, self.spark)
        counts = told["counts"] | self.counts.of(query, progress, folder, java)
        ages = self.written.of(query, progress, folder)
        told |= {"counts": counts, "fresh": fresh.sample(progress, folder, ages)}
        return told | ({"examples": examples} if examples else {})

    def note_idle(self, run_id: str) -> None:
        self.heard_at[run_id] = time.monotonic()

    def look_at_inputs(self, run_id: str | None = None) -> None:
        """Of all queries, or of one."""
        for one in self.all():
            if run_id in (None, one.run_id) and one.run_id not in self.terminated:
                self.inputs.look(one.run_id, one.query)

    def note_inactive(self, now: float) -> None:
        """Listeners lose events when a context stops: a query long inactive has ended as well."""
        for one in self.all():
            if one.run_id in self.terminated or one.query.isActive:
                self._inactive.pop(one.run_id, None)
            elif now - self._inactive.setdefault(one.run_id, now) > NEWS_LOST_S:
                found = one.query._jsq.exception()
                self.note_terminated(
                    one.run_id, None if found.isEmpty() else found.get().toString(), None
                )

    def claim(self, spark: SparkSession, checkpoint: str, owner: Claim) -> identity.Identity | None:
        """As `claim` below, and not while another query of this run is on it."""
        path = _path(checkpoint)
        active = {_path(o.checkpoint) for o in self.all() if o.checkpoint and o.query.isActive}
        if path in active | self._claimed:
            raise CheckpointError(
                f"Two queries of this run use the checkpoint {path}.",
                why="a checkpoint belongs to one query; two would overwrite each other's offsets",
                fix="give each query a checkpoint and, for a file sink, a folder of its own",
                slug="checkpoint-shared",
            )
        claimed = claim(spark, checkpoint, owner)
        self._claimed.add(path)
        self._note_folder(owner.query, checkpoint)  # its first batch may be told before `enter`
        return claimed

    def enter(self, watched: Watched, epoch: int | None, data: dict[str, Any]) -> None:
        with self._lock:
            # A script may start a query again and again: one that has ended well makes room.
            self.watched = [o for o in self.watched if o.name != watched.name or not o.is_over()]
            self.watched.append(watched)
            self._claimed.discard(_path(watched.checkpoint or ""))
        self._note_folder(watched.name, watched.checkpoint)
        facts = {
            "id": str(watched.query.id),
            "run_id": watched.run_id,
            "checkpoint": watched.checkpoint,
            "epoch": epoch,
        }
        self.events.tell(Kind.QUERY_STARTED, watched.name, facts | data)

    def all(self) -> list[Watched]:
        with self._lock:
            return list(self.watched)

    def _note_folder(self, query: str, checkpoint: str | None) -> None:
        folder = lock.local_path(checkpoint) if checkpoint else None
        if folder is None:
            self._folders.pop(query, None)
        else:
            self._folders[query] = folder


def unusable(checkpoint: str, owner: Claim) -> CheckpointError | None:
    """Why a query must not start on this checkpoint, by what is on disk: no JVM is needed."""
    folder = lock.local_path(checkpoint)
    if folder is None:
        return None
    try:
        known = identity.read(folder)
    except CheckpointError as exc:
        return exc
    found = layout.read(folder)
    query = owner.query if owner.is_named or known is None else known.query
    error = identity.verify(known, found, owner.pipeline, query, owner.project, owner.sink)
    if error is not None:
        return error
    if grave := [one for one in found.problems if one.slug not in HARMLESS]:
        return _damaged(owner, found.path, grave)
    if owner.sink is None:
        return None
    return sinks.mismatch(f"{owner.pipeline}/{query}", found, owner.sink)


def claim(spark: SparkSession, checkpoint: str, owner: Claim) -> identity.Identity | None:
    """Lock a checkpoint, make sure it is ours, raise its epoch. None if it is not on a disk here.

    Raises CheckpointError before anything of it has changed.
    """
    lock.take(spark, checkpoint)
    folder = lock.local_path(checkpoint)
    if folder is None:
        return None
    if error := unusable(checkpoint, owner):
        raise error
    known = identity.read(folder)
    return identity.Identity(
        project=owner.project,
        pipeline=owner.pipeline,
        query=owner.query if owner.is_named or known is None else known.query,
        epoch=(known.epoch if known else 0) + 1,
        query_id=known.query_id if known else None,
        fingerprint=known.fingerprint if known and known.fingerprint else owner.fingerprint,
    )


def _path(checkpoint: str) -> str:
    """One spelling: with and without `file:`."""
    return str(lock.local_path(checkpoint) or checkpoint)


def _damaged(owner: Claim, path: str, grave: list[Problem]) -> CheckpointError:
    """Never start from scratch in silence, and never on offsets that cannot be trusted."""
    first, *more = grave
    also = "; ".join(problem.text for problem in more)
    return CheckpointError(
        f"The checkpoint of {owner.pipeline}/{owner.query} is damaged: {first.text}",
        why=f"also: {also}" if also else "starting on it would lose or double rows",
        where=path,
        fix=first.fix,
        slug=first.slug,
    )


def record(checkpoint: str, claimed: identity.Identity) -> None:
    folder = lock.local_path(checkpoint)
    if folder is not None:
        identity.write(folder, claimed)
