"""The owner of a checkpoint, in the file `v1.json` next to the folder `v1`.

The driver writes it at every start; it is read before the next one and by the `checkpoint`
commands. Invariant: a checkpoint is never silently restarted from scratch, and never used by
another query. `checkpoint_content` reads the content of the folder.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace import json_file
from headrace.checkpoints.checkpoint_content import Layout
from headrace.errors import CheckpointError, StoreError
from headrace.model.runs import Jsonable


@dataclass(frozen=True, slots=True)
class Identity(Jsonable):
    pipeline: str
    query: str
    project: str  # [project] name
    query_id: str | None = None  # None until the first successful start
    epoch: int = 0  # increases with every start
    fingerprint: Mapping[str, Any] = field(default_factory=dict)


def place(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.json")


def read(checkpoint: Path) -> Identity | None:
    """None before the first start, or for a checkpoint that Headrace did not create."""
    path = place(checkpoint)
    try:
        body = json_file.read_json(path)
        if body is None:
            return None
        identity = Identity.from_json(body)
        if not _is_sound(identity):
            raise TypeError("A field has the wrong type.")
        return identity
    except (StoreError, TypeError) as exc:
        raise CheckpointError(
            f"{path}, which identifies the owner of {checkpoint.name}, is damaged.",
            why=exc.what if isinstance(exc, StoreError) else str(exc),
            where=str(path),
            fix=f"If {shlex.quote(str(checkpoint))} is the right checkpoint, move the damaged file"
            " aside (Headrace writes a new one at the next start):"
            f" mv {shlex.quote(str(path))} {shlex.quote(str(path) + '.bad')}",
            slug="checkpoint-identity-damaged",
        ) from exc


def start_over(checkpoint: Path, sink: Path | None) -> str:
    """Commands that restart a query at batch 0, as the end of a fix. `sink` is the folder of a
    file sink: it skips batches that it has, so it must be moved together with the checkpoint."""
    paths = [checkpoint, place(checkpoint), *([sink] if sink is not None else [])]
    moves = [
        shlex.join(["mv", str(path), str(_free_name(path))])
        for path in map(Path.absolute, paths)
        if os.path.lexists(path)
    ]
    return f"to reprocess all input that the sources still have, run: {' && '.join(moves)}"


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.old{n or ''}") for n in itertools.count())
    return next(name for name in names if not os.path.lexists(name))


def write(checkpoint: Path, identity: Identity) -> None:
    """Atomic and synced. OSError passes through."""
    json_file.write_json(place(checkpoint), identity.to_json())


def verify(
    identity: Identity | None,
    layout: Layout,
    pipeline: str,
    query: str,
    project: str | None = None,
    sink: Path | None = None,
) -> CheckpointError | None:
    """Why this query must not start with this checkpoint. `sink` is the folder of a file sink, for
    the fixes."""
    if identity is not None and _is_foreign(identity, pipeline, query, project):
        return _foreign(identity, layout, pipeline, query, project)
    known = identity.query_id if identity is not None else None
    if layout.query_id is None and (known is not None or layout.is_started):
        return _lost_metadata(known, layout, sink)
    if known is not None and layout.query_id != known:
        folder = f", and {sink} belongs to it" if sink is not None else ""
        return CheckpointError(
            f"The checkpoint of {pipeline}/{query} was replaced: its query id"
            f" changed from {known} to {layout.query_id}.",
            why="Sinks that identify batches by query id would lose or duplicate rows.",
            where=layout.path,
            fix=f"Restore the old folder. If this checkpoint is the right one{folder}, run:"
            f" rm {shlex.quote(layout.path + '.json')}",
            slug="checkpoint-replaced",
        )
    return None


def _is_foreign(identity: Identity, pipeline: str, query: str, project: str | None) -> bool:
    if (identity.pipeline, identity.query) != (pipeline, query):
        return True
    return project is not None and identity.project != project


def _foreign(
    identity: Identity, layout: Layout, pipeline: str, query: str, project: str | None
) -> CheckpointError:
    ours = f"{pipeline}/{query}" + (f" in project {project!r}" if project is not None else "")
    return CheckpointError(
        f"This checkpoint belongs to {identity.pipeline}/{identity.query} in project"
        f" {identity.project!r}, not to {ours}.",
        why="Queries that share a checkpoint lose or duplicate rows.",
        where=layout.path,
        fix="If a query, pipeline or project was renamed by mistake, restore its old name. If "
        "this is a different query, set a different checkpoint and, for a file sink, a "
        "different folder. If the rename was intentional and you want to keep this checkpoint, "
        f"run: rm {shlex.quote(layout.path + '.json')}",
        slug="checkpoint-foreign",
    )


def _lost_metadata(known: str | None, layout: Layout, sink: Path | None) -> CheckpointError:
    metadata = shlex.quote(f"{layout.path}/metadata")
    if not layout.is_started:
        what = f"The checkpoint {layout.path} is empty, but query {known} has used it before."
        fix = f"Restore the folder from a backup. Otherwise, {start_over(Path(layout.path), sink)}"
    elif known is None:
        what = f"The checkpoint {layout.path} has batches but no usable `metadata` file."
        fix = f"Restore {metadata} from a backup."
    else:
        content = json.dumps({"id": known}, separators=(",", ":"))
        crc = shlex.quote(f"{layout.path}/.metadata.crc")
        what = f"The checkpoint {layout.path} has no `metadata` file; its query id is {known}."
        fix = f"rm -f {crc}; printf '%s' '{content}' > {metadata}"
    return CheckpointError(
        what,
        why="Without the `metadata` file, Spark creates a new query id, so exactly-once sinks write"
        " duplicate rows.",
        where=layout.path,
        fix=fix,
        slug="checkpoint-metadata-lost",
    )


def _is_sound(identity: Identity) -> bool:
    types = {"pipeline": str, "query": str, "project": str, "query_id": str | None, "epoch": int}
    return all(isinstance(getattr(identity, name), type_) for name, type_ in types.items())
