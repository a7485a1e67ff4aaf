"""Whether the log of a file sink fits the checkpoint of the query that writes to it.

Spark plans batch N in offsets/, writes its files, enters them in the sink's log, commits N. So the
log's newest batch is at least the last one committed and at most the last one planned; batches
without rows have an entry too. Nothing in Spark compares the two: it skips every batch that the log
has already, and notices missing entries only with the next compaction.
Read by the driver before a start. Invariant: reads only.
"""

from __future__ import annotations

from pathlib import Path

from headrace.checkpoints import committed, identity
from headrace.checkpoints.layout import Layout
from headrace.errors import CheckpointError, ConnectorError


def mismatch(query: str, checkpoint: Layout, folder: Path) -> CheckpointError | None:
    """Why this query must not start on this checkpoint and folder, if so."""
    log = folder / committed.LOG
    again = identity.start_over(Path(checkpoint.path), folder)
    try:
        last = committed.last_batch(folder)
    except ConnectorError as exc:
        return _lost(exc.what, log, again)
    except OSError as exc:
        return _lost(f"{log} cannot be read: {exc.strerror}.", log, again)
    done = checkpoint.commits[-1] if checkpoint.commits else None
    planned = checkpoint.offsets[-1] if checkpoint.offsets else None
    if last is not None and (planned is None or last > planned):
        return _ahead(query, last, planned, folder, again)
    if done is not None and (last is None or last < done):
        ends = f"ends at batch {last}" if last is not None else "has no batch"
        ends = ends if log.is_dir() else "does not exist"
        return _lost(f"{query} has committed batch {done}, but {log} {ends}.", log, again)
    return None


def _ahead(query: str, last: int, planned: int | None, folder: Path, again: str) -> CheckpointError:
    begun = "is new" if planned is None else f"ends at batch {planned}"
    return CheckpointError(
        f"The sink of {query} has batches up to {last}, but its checkpoint {begun}.",
        why="a file sink skips every batch number that its log has already, so rows of the batches"
        f" up to {last} would be lost",
        where=str(folder / committed.LOG),
        fix=f"put back the checkpoint that wrote {folder}; or, {again}",
        slug="sink-log-ahead",
    )


def _lost(what: str, log: Path, again: str) -> CheckpointError:
    return CheckpointError(
        what,
        why="the log says which files of the sink count: rows of missing entries are lost, and"
        " Spark fails when it next compacts the log",
        where=str(log),
        fix=f"restore {log} from a backup, or set the sink's path back if it was changed; or,"
        f" {again}",
        slug="sink-log-lost",
    )
