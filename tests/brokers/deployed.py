"""A project as the relay meets it: definition and checkpoint are written here as a deploy and Spark
leave them, so no pipeline has to run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.json_file import write_json
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.runs import Desired
from headrace.project.workspace import Workspace, open_workspace

VERSION = "v" * 12


def workspace(folder: Path, *sources: dict[str, Any], beside: tuple[Node, ...] = ()) -> Workspace:
    """One pipeline `flow` with one query `kept` is deployed there; `beside` are nodes of others."""
    (folder / "headrace.toml").write_text(
        f'[lag]\nmirror = "{folder.name}-{{pipeline}}-{{query}}"\n'
    )
    work = open_workspace(folder, "dev")
    nodes = tuple(
        Node(f"raw{number}", "source", "flow.py:1", connector={"kind": "kafka", **source})
        for number, source in enumerate(sources)
    )
    query = Query(
        "kept", "flow.py:2", tuple(node.name for node in nodes), {"kind": "parquet"}, "append",
        {"kind": "default"}, str(folder / "checkpoint"), "exactly-once", "",
    )  # fmt: skip
    definition = Definition("flow", "dev", VERSION, "flow.py", (*beside, *nodes), (query,))
    write_json(work.places.definition(VERSION, "dev", "flow"), definition.to_json())
    wanted = Desired("flow", "stopped", VERSION, "dev", "flow.py")
    write_json(work.places.desired("flow"), asdict(wanted))
    return work


def committed(folder: Path, batch: int, *positions: dict[str, dict[str, int]]) -> None:
    """As Spark leaves a batch that is done: a line a source."""
    for name, lines in (
        ("offsets", ["v1", '{"batchWatermarkMs":0}', *map(json.dumps, positions)]),
        ("commits", ["v1", "{}"]),
    ):
        (folder / "checkpoint" / name).mkdir(parents=True, exist_ok=True)
        (folder / "checkpoint" / name / str(batch)).write_text("\n".join(lines))
