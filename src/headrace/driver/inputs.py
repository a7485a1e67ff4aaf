"""Input files that changed between the moment a source listed them and the moment they were read.

Spark lists a folder once for many batches (`max_files`) and passes over a listed file that is gone
by the time its batch is planned. The plan itself keeps the evidence: the paths that it was asked
for, and those that it found. So a file that is deleted after it was read is never mistaken for one
that was lost. A rewritten file shows in its modification time, which the source's log has.

`look` is called with every progress object and once a second, since a plan is known only until the
next batch has one. Where one was missed all the same, a file on a disk here that is gone right
after its batch counts as lost, unless Spark itself tidies the folder.
Invariant: nothing in here raises or waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.checkpoints import sources
from headrace.connectors.connector import Connector
from headrace.connectors.files import STOP, Files
from headrace.driver.analyse import class_of, each
from headrace.model.inputs import FILES_NAMED

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

FILE_SOURCE = "FileStreamSource["  # how Spark describes one


@dataclass(frozen=True, slots=True)
class Loss:
    """Files that a committed batch should have read. `files` are the first of them."""

    query: str
    batch: int
    count: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Gone:
    count: int = 0
    files: tuple[str, ...] = ()


@dataclass(slots=True)
class Inputs:
    """`loss` is the first one of a query that has to stop for it."""

    loss: Loss | None = None
    _stopping: set[str] = field(default_factory=set)  # queries that stop when a file has vanished
    _untidied: set[str] = field(default_factory=set)  # queries whose files Spark leaves in place
    _seen: dict[str, dict[int, _Gone]] = field(default_factory=dict)  # by run id and batch
    _without_files: set[str] = field(default_factory=set)  # run ids of queries that read none

    def note(self, query: str, read: Iterable[Connector | None]) -> None:
        """What a query reads. A script's queries are reported on, and never stopped."""
        found = [one for one in read if isinstance(one, Files)]
        if any(one.on_missing == STOP for one in found):
            self._stopping.add(query)
        if not any(name.lower() == "cleansource" for one in found for name in one.options):
            self._untidied.add(query)

    def look(self, run_id: str, query: StreamingQuery) -> None:
        """Keep what the plan of the current batch says, as long as it can be had."""
        from py4j.protocol import Py4JError

        if run_id in self._without_files:
            return
        try:
            execution: Any = query._jsq.streamingQuery().lastExecution()
            if execution is None:
                return
            batch, seen = execution.currentBatchId(), self._seen.setdefault(run_id, {})
            if batch not in seen:
                seen[batch] = _gone(execution)
        except Py4JError:
            return  # the JVM is ending, or it is a query of another kind

    def changes(
        self, query: str, progress: Mapping[str, Any], checkpoint: Path | None
    ) -> dict[str, Any] | None:
        """What an `inputs_changed` event says about a committed batch; None: nothing changed."""
        run_id, batch = str(progress.get("runId")), progress.get("batchId")
        read = _file_sources(progress)
        if not read or not isinstance(batch, int):
            self._without_files.add(run_id)
            return None
        seen = self._seen.get(run_id, {})
        gone = seen.get(batch)
        for old in [number for number in list(seen) if number <= batch]:
            seen.pop(old, None)
        absent, rewritten = _compared(read, checkpoint) if checkpoint else ([], [])
        if gone is None:
            missed = absent if query in self._untidied else []
            gone = _Gone(len(missed), tuple(missed[:FILES_NAMED]))
        if gone.count and query in self._stopping and self.loss is None:
            self.loss = Loss(query, batch, gone.count, gone.files)
        if not gone.count and not rewritten:
            return None
        return {
            "batch": batch,
            "vanished": gone.count,
            "vanished_files": list(gone.files),
            "rewritten": len(rewritten),
            "rewritten_files": rewritten[:FILES_NAMED],
        }


def _gone(execution: Any) -> _Gone:
    """Only counts cross from the JVM, and a few names where something is missing."""
    count, files = 0, []
    for leaf in each(execution.logical().collectLeaves()):
        if class_of(leaf) != "LogicalRelation" or not leaf.isStreaming():
            continue
        relation = leaf.relation()
        if class_of(relation) != "HadoopFsRelation":
            continue
        wanted, found = relation.location().rootPaths(), relation.location().leafFiles()
        if wanted.size() > found.size():
            missing = wanted.filterNot(found.keySet())
            count += missing.size()
            files += str(missing.take(FILES_NAMED).mkString("\n")).splitlines()
    return _Gone(count, tuple(path.removeprefix("file:") for path in files[:FILES_NAMED]))


def _file_sources(progress: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Number of the source, the entry of its log before the batch, and the batch's last one."""
    told = progress.get("sources")
    return [
        (number, _entry(source.get("startOffset")), _entry(source.get("endOffset")))
        for number, source in enumerate(told if isinstance(told, list) else ())
        if isinstance(source, Mapping) and str(source.get("description")).startswith(FILE_SOURCE)
    ]


def _entry(offset: Any) -> int:
    number = offset.get("logOffset") if isinstance(offset, Mapping) else None
    return number if isinstance(number, int) else -1


def _compared(
    read: Iterable[tuple[int, int, int]], checkpoint: Path
) -> tuple[list[str], list[str]]:
    """Files on a disk here that are gone, and those whose modification time is another one."""
    absent, rewritten = [], []
    for number, before, upto in read:
        for one in sources.listed(checkpoint, number, before, upto):
            path = _local(one.path)
            try:
                if path and os.stat(path).st_mtime_ns // 1_000_000 != one.ms:
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
