"""Detects input files that vanished or were rewritten after the source listed them.

Spark lists a folder once for many batches (`max_files`) and skips a listed file that is gone when
its batch is planned. The plan has both the requested paths and those that exist, so a file deleted
after it was read is not mistaken for a lost one. The modification time of a rewritten file
differs from the one in the source's log.

`inspect_plan` is called with every progress and once a second, because the next batch replaces the
plan. If a plan was missed, a local file that is gone right after its batch counts as lost, unless
Spark itself cleans up the folder.
Invariant: nothing here raises or waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.checkpoints import source_logs
from headrace.connectors.connector import Connector
from headrace.connectors.files import STOP
from headrace.driver.plan_analysis import class_of, each
from headrace.model.changed_files import FILES_NAMED
from headrace.model.progress import Progress, SourceProgress

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

FILE_SOURCE = "FileStreamSource["  # how Spark's description of a file source begins


@dataclass(frozen=True, slots=True)
class InputLoss:
    """Files that a committed batch should have read. `files` names the first of them."""

    query: str
    batch: int
    count: int
    files: list[str]


@dataclass(slots=True)
class InputFiles:
    """`loss` is the first one in a query that must stop when files vanish."""

    loss: InputLoss | None = None
    _stopping: set[str] = field(default_factory=set)  # queries that stop when a file vanishes
    _not_cleaned: set[str] = field(default_factory=set)  # queries without cleanSource
    # By run id and batch: the number of missing files, and the first of them.
    _seen: dict[str, dict[int, tuple[int, list[str]]]] = field(default_factory=dict)
    _without_files: set[str] = field(default_factory=set)  # run ids of queries without file sources

    def note(self, query: str, read: Iterable[Connector | None]) -> None:
        """Takes a query's sources. Not called for scripts, whose queries never stop for a loss."""
        files = [found for source in read if source and (found := source.as_files())]
        if any(source.on_missing == STOP for source in files):
            self._stopping.add(query)
        if not any(name.lower() == "cleansource" for source in files for name in source.options):
            self._not_cleaned.add(query)

    def inspect_plan(self, run_id: str, query: StreamingQuery) -> None:
        """Finds the missing files of the current batch while its plan exists."""
        from py4j.protocol import Py4JError

        if run_id in self._without_files:
            return
        try:
            execution: Any = query._jsq.streamingQuery().lastExecution()
            if execution is None:
                return
            batch, seen = execution.currentBatchId(), self._seen.setdefault(run_id, {})
            if batch not in seen:
                seen[batch] = _find_missing_files(execution)
        except Py4JError:
            return  # the JVM is ending, or it is a query of another kind

    def changes(
        self, query: str, progress: Progress, checkpoint: Path | None
    ) -> dict[str, Any] | None:
        """The data of an `inputs_changed` event for a committed batch, None without changes."""
        run_id, batch = progress.run_id, progress.batch
        if batch is None or not any(map(_is_file_source, progress.sources)):
            self._without_files.add(run_id)
            return None
        seen = self._seen.get(run_id, {})
        gone = seen.get(batch)
        for old in [number for number in list(seen) if number <= batch]:
            seen.pop(old, None)
        absent, rewritten = _compare_with_disk(progress, checkpoint) if checkpoint else ([], [])
        if gone is None:
            missed = absent if query in self._not_cleaned else []
            gone = len(missed), missed[:FILES_NAMED]
        count, files = gone
        if count and query in self._stopping and self.loss is None:
            self.loss = InputLoss(query, batch, count, files)
        if not count and not rewritten:
            return None
        return {
            "batch": batch,
            "vanished": count,
            "vanished_files": files,
            "rewritten": len(rewritten),
            "rewritten_files": rewritten[:FILES_NAMED],
        }


def _find_missing_files(execution: Any) -> tuple[int, list[str]]:
    """Reads only counts from the JVM, and a few names if files are missing."""
    count, files = 0, list[str]()
    for leaf in each(execution.logical().collectLeaves()):
        if class_of(leaf) != "LogicalRelation" or not leaf.isStreaming():
            continue
        relation = leaf.relation()
        if class_of(relation) != "HadoopFsRelation":
            continue
        requested, existing = relation.location().rootPaths(), relation.location().leafFiles()
        if requested.size() > existing.size():
            missing = requested.filterNot(existing.keySet())
            count += missing.size()
            files += str(missing.take(FILES_NAMED).mkString("\n")).splitlines()
    return count, [path.removeprefix("file:") for path in files[:FILES_NAMED]]


def _is_file_source(source: SourceProgress) -> bool:
    return source.description.startswith(FILE_SOURCE)


def _compare_with_disk(progress: Progress, checkpoint: Path) -> tuple[list[str], list[str]]:
    """Local files that are gone, and those whose modification time differs from the listed one."""
    absent, rewritten = [], []
    for number, source in enumerate(progress.sources):
        if not _is_file_source(source):
            continue
        before, upto = (-1 if e is None else e for e in (source.start_entry, source.end_entry))
        for file in source_logs.listed_files(checkpoint, number, before, upto):
            path = _local(file.path)
            try:
                if path and os.stat(path).st_mtime_ns // 1_000_000 != file.ms:
                    rewritten.append(path)
            except FileNotFoundError:
                absent.append(str(path))
            except OSError:
                continue
    return absent, rewritten


def _local(url: str) -> str | None:
    if not url.startswith("file:"):
        return None
    return "/" + unquote(url.removeprefix("file:")).lstrip("/")
