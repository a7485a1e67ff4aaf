"""The queries of a run, and the checks that a checkpoint belongs to its query.

A query is added by `enter`, after its checkpoint is claimed. Spark's listener adds how it ended.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config
from headrace.checkpoints import checkpoint_content, identity, sink_mismatch
from headrace.checkpoints.file_checks import Problem
from headrace.driver import (
    checkpoint_lock,
    continuous_progress,
    freshness,
    listener,
    progress_counts,
)
from headrace.driver.changed_files import InputFiles
from headrace.driver.events import EventsFile
from headrace.driver.example_rows import ExampleRows
from headrace.driver.outages import OutageTracker
from headrace.driver.quality_counts import BatchCounts
from headrace.driver.record_ages import RecordAges
from headrace.driver.user_listeners import UserListeners
from headrace.errors import CheckpointError
from headrace.model.events import EventKind
from headrace.model.progress import Progress, from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


EVENT_LOST_S = 2.0
HARMLESS = frozenset({"checkpoint-stray-file"})  # Spark ignores names that are not numbers


@dataclass(frozen=True, slots=True)
class RunningQuery:
    name: str
    query: StreamingQuery
    checkpoint: str | None  # None: no checkpoint, or a temporary one
    run_id: str = field(init=False)  # a copy: the loop needs it ten times a second
    epochs: continuous_progress.EpochTracker | None = field(init=False)  # for a continuous query

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_id", str(self.query.runId))
        object.__setattr__(self, "epochs", continuous_progress.from_query(self.query))

    def is_over(self) -> bool:
        """Ended without a failure."""
        return not self.query.isActive and bool(self.query._jsq.exception().isEmpty())

    def has_begun(self) -> bool:
        """A batch has ended, or the query waits for data."""
        status: Any = self.query.status
        return self.query.lastProgress is not None or status["message"].startswith("Waiting")

    def last_committed_batch(self) -> int | None:
        folder = config.local_path(self.checkpoint)
        if folder is not None:
            return checkpoint_content.last_committed_batch(folder)
        if self.epochs is not None:
            return self.epochs.last
        last = self.query.lastProgress
        return from_spark(last).batch if last else None

    def batch_in_doubt(self) -> int | None:
        """The batch that is planned but not committed, else the next one."""
        folder = config.local_path(self.checkpoint)
        if folder is None:
            return None
        contents = checkpoint_content.read(folder)
        planned = contents.offsets[-1] if contents.offsets else None
        committed = contents.commits[-1] if contents.commits else None
        if planned is not None and planned != committed:
            return planned
        return 0 if committed is None else committed + 1


@dataclass(frozen=True, slots=True)
class Claim:
    """The owner of a checkpoint, recorded in its `v1.json` before a query starts on it."""

    project: str
    pipeline: str
    query: str
    is_named: bool = True  # False: Headrace generated the name, so it proves nothing
    sink: Path | None = None  # the folder of a local file sink
    fingerprint: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Queries:
    spark: SparkSession | None
    events: EventsFile
    watched: list[RunningQuery] = field(default_factory=list)
    terminated: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    progressed_at: dict[str, float] = field(default_factory=dict)  # by run id, on a steady clock
    heard_at: dict[str, float] = field(default_factory=dict)  # the same, with idle events
    record_ages: RecordAges = field(default_factory=RecordAges)
    inputs: InputFiles = field(default_factory=InputFiles)
    outages: OutageTracker = field(init=False)
    examples: ExampleRows = field(default_factory=ExampleRows)
    counts: BatchCounts = field(init=False)
    user_listeners: UserListeners = field(default_factory=UserListeners)
    is_closed: bool = False  # the run is ending: no query may start
    _claimed: set[str] = field(default_factory=set)  # checkpoints of queries about to start
    _folders: dict[str, Path | None] = field(default_factory=dict)  # local checkpoints, by query
    _inactive: dict[str, float] = field(default_factory=dict)
    _sessions: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.outages = OutageTracker(self.events)
        self.counts = BatchCounts(self.record_ages)

    def attach(self, spark: SparkSession) -> None:
        """Listen to this session's queries."""
        self.spark = spark
        session_id = str(spark._jsparkSession.sessionUUID())
        if session_id not in self._sessions:
            self._sessions.add(session_id)
            callbacks = (self.note_terminated, self.note_progress, self.note_idle)
            tell_users = self.user_listeners.tell
            listener.add(spark, listener.Listener(self.events, *callbacks, tell_users))

    def note_terminated(self, run_id: str, error: str | None, error_class: str | None) -> None:
        self.terminated[run_id] = (error, error_class)
        self.progressed_at.pop(run_id, None)
        self.heard_at.pop(run_id, None)

    def note_progress(self, query: str, progress: Progress) -> dict[str, Any]:
        """Returns what a `progressed` event has in addition to Spark's progress."""
        run_id, folder = progress.run_id, self._folders.get(query)
        self.progressed_at[run_id] = self.heard_at[run_id] = time.monotonic()
        java = next((entry.query._jsq for entry in self.all() if entry.run_id == run_id), None)
        # First: the next batch replaces the plan.
        self.inspect_inputs(run_id)
        if changes := self.inputs.changes(query, progress, folder):
            self.events.tell(EventKind.INPUTS_CHANGED, query, changes)
        facts = progress_counts.from_progress(progress)
        examples = self.examples.refresh(query, facts["counts"], progress.batch, java, self.spark)
        counts = facts["counts"] | self.counts.count_batch(query, progress, folder, java)
        ages = self.record_ages.fetch_times(query, progress, folder)
        facts |= {"counts": counts, "fresh": freshness.sample(progress, folder, ages)}
        return facts | ({"examples": examples} if examples else {})

    def note_idle(self, run_id: str) -> None:
        self.heard_at[run_id] = time.monotonic()

    def inspect_inputs(self, run_id: str | None = None) -> None:
        """Of all queries, or of one."""
        for entry in self.all():
            if run_id in (None, entry.run_id) and entry.run_id not in self.terminated:
                self.inputs.inspect_plan(entry.run_id, entry.query)

    def note_inactive(self, now: float) -> None:
        """Listeners lose events when a context stops, so an inactive query counts as ended."""
        for entry in self.all():
            if entry.run_id in self.terminated or entry.query.isActive:
                self._inactive.pop(entry.run_id, None)
            elif now - self._inactive.setdefault(entry.run_id, now) > EVENT_LOST_S:
                failure = entry.query._jsq.exception()
                error = None if failure.isEmpty() else failure.get().toString()
                self.note_terminated(entry.run_id, error, None)

    def claim(
        self, spark: SparkSession, checkpoint: str | None, owner: Claim
    ) -> identity.Identity | None:
        """As `claim` below, unless another query of this run uses the checkpoint."""
        if checkpoint is None:
            return None
        path = _path(checkpoint)
        active = {_path(o.checkpoint) for o in self.all() if o.checkpoint and o.query.isActive}
        if path in active | self._claimed:
            raise CheckpointError(
                f"Two queries in this run use the checkpoint {path}.",
                why="A checkpoint belongs to one query. Two queries would overwrite each other's "
                "offsets.",
                fix="Give each query its own checkpoint and, for a file sink, its own folder.",
                slug="checkpoint-shared",
            )
        claimed = claim(spark, checkpoint, owner)
        self._claimed.add(path)
        # A first batch may be reported before `enter`.
        self._folders[owner.query] = config.local_path(checkpoint)
        return claimed

    def enter(
        self, started: RunningQuery, claimed: identity.Identity | None, data: dict[str, Any]
    ) -> None:
        query_id = str(started.query.id)
        if claimed is not None and claimed.query_id != query_id:
            record(started.checkpoint, replace(claimed, query_id=query_id))
        with self._lock:
            # A script may start a query many times: it replaces one that ended well.
            self.watched = [o for o in self.watched if o.name != started.name or not o.is_over()]
            self.watched.append(started)
            self._claimed.discard(_path(started.checkpoint or ""))
        self._folders[started.name] = config.local_path(started.checkpoint)
        facts = {
            "id": query_id,
            "run_id": started.run_id,
            "checkpoint": started.checkpoint,
            "epoch": claimed.epoch if claimed is not None else None,
        }
        self.events.tell(EventKind.QUERY_STARTED, started.name, facts | data)

    def all(self) -> list[RunningQuery]:
        with self._lock:
            return list(self.watched)


def unusable(checkpoint: str, owner: Claim) -> CheckpointError | None:
    """Why a query must not start on this checkpoint. Reads the disk only, without a JVM."""
    folder = config.local_path(checkpoint)
    if folder is None:
        return None
    try:
        known = identity.read(folder)
    except CheckpointError as exc:
        return exc
    contents = checkpoint_content.read(folder)
    query = owner.query if owner.is_named or known is None else known.query
    error = identity.verify(known, contents, owner.pipeline, query, owner.project, owner.sink)
    if error is not None:
        return error
    if damages := [problem for problem in contents.problems if problem.slug not in HARMLESS]:
        return _damaged_checkpoint_error(owner, contents.path, damages)
    if owner.sink is None:
        return None
    return sink_mismatch.mismatch(f"{owner.pipeline}/{query}", contents, owner.sink)


def claim(spark: SparkSession, checkpoint: str, owner: Claim) -> identity.Identity | None:
    """Lock a checkpoint, verify its owner, raise its epoch. None for a remote checkpoint.

    Raises CheckpointError before anything is changed.
    """
    checkpoint_lock.take(spark, checkpoint)
    folder = config.local_path(checkpoint)
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
    """The same with and without `file:`."""
    return str(config.local_path(checkpoint) or checkpoint)


def _damaged_checkpoint_error(owner: Claim, path: str, damages: list[Problem]) -> CheckpointError:
    first, *more = damages
    also = "; ".join(problem.text for problem in more)
    return CheckpointError(
        f"The checkpoint of {owner.pipeline}/{owner.query} cannot be used. {first.text}",
        why=f"Also: {also}" if also else "Starting from it would lose or duplicate rows.",
        where=path,
        fix=first.fix,
        slug=first.slug,
    )


def record(checkpoint: str | None, claimed: identity.Identity | None) -> None:
    """Does nothing without a claim: a checkpoint that is remote, or none at all."""
    folder = config.local_path(checkpoint)
    if folder is not None and claimed is not None:
        identity.write(folder, claimed)
