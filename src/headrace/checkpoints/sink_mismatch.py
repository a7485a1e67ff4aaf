"""Compares the log of a file sink with the checkpoint of the query that writes to it.

Spark plans batch N in offsets/, writes its files, adds them to the sink's log, and commits N. So
the newest batch in the log is between the last committed and the last planned one; batches without
rows have an entry too. Spark does not compare the two: it skips every batch that the log contains,
and notices missing entries only in the next compaction.
Used by the driver before a start. Invariant: reads only.
"""

from __future__ import annotations

from pathlib import Path

from headrace.checkpoints import committed_files, identity
from headrace.checkpoints.checkpoint_content import Layout
from headrace.errors import CheckpointError, ConnectorError


def mismatch(query: str, checkpoint: Layout, folder: Path) -> CheckpointError | None:
    """Why this query must not start with this checkpoint and folder."""
    log = folder / committed_files.LOG
    again = identity.start_over(Path(checkpoint.path), folder)
    try:
        last = committed_files.last_batch(folder)
    except ConnectorError as exc:
        return _lost_log(exc.what, log, again)
    except OSError as exc:
        return _lost_log(f"{log} cannot be read: {exc.strerror}.", log, again)
    done = checkpoint.commits[-1] if checkpoint.commits else None
    planned = checkpoint.offsets[-1] if checkpoint.offsets else None
    if last is not None and (planned is None or last > planned):
        return _ahead(query, last, planned, folder, again)
    if done is not None and (last is None or last < done):
        ends = f"ends at batch {last}" if last is not None else "contains no batches"
        ends = ends if log.is_dir() else "does not exist"
        return _lost_log(f"{query} committed batch {done}, but {log} {ends}.", log, again)
    return None


def _ahead(query: str, last: int, planned: int | None, folder: Path, again: str) -> CheckpointError:
    begun = "is new" if planned is None else f"ends at batch {planned}"
    return CheckpointError(
        f"The sink of {query} has batches up to {last}, but the checkpoint {begun}.",
        why="A file sink skips batch numbers that are already in its log, so new rows in batches up"
        f" to {last} would be lost.",
        where=str(folder / committed_files.LOG),
        fix=f"Restore the checkpoint that belongs to {folder}. Otherwise, {again}",
        slug="sink-log-ahead",
    )


def _lost_log(what: str, log: Path, again: str) -> CheckpointError:
    return CheckpointError(
        what,
        why="The log lists the sink's committed files. Readers skip files whose entries"
        " are missing, so the rows in those files are lost, and Spark fails the next time it"
        " compacts the log.",
        where=str(log),
        fix=f"Restore {log} from a backup. If the sink's path was changed, change it back."
        f" Otherwise, {again}",
        slug="sink-log-lost",
    )
