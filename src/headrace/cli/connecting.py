"""`check --connect`: every source and sink across the network is really asked.

From the definitions alone, by our own clients: no Spark, no user code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.cli.definitions import Worst
from headrace.connectors import kinds
from headrace.errors import Error
from headrace.model.pipeline import Definition, Node


def reached(definitions: Sequence[Definition]) -> list[dict[str, str]]:
    """What each said: name, kind, found. Raises every problem at once."""
    said: list[dict[str, str]] = []
    problems: list[Error] = []
    asked: set[str] = set()
    for node, fields in _connectors(definitions):
        name = node.name
        same = json.dumps(fields, sort_keys=True)
        if same in asked or kinds.maker(fields["kind"]) is None:
            continue
        asked.add(same)
        try:
            found = kinds.made(fields, name=name).reached()
        except Error as exc:
            exc.what, exc.where = f"{name}: {exc.what}", exc.where or node.place
            problems.append(exc)
            continue
        if found is not None:
            said.append({"name": name, "kind": str(fields["kind"]), "found": found})
    if problems:
        raise problems[0] if len(problems) == 1 else Worst(problems)
    return said


def _connectors(definitions: Sequence[Definition]) -> Iterator[tuple[Node, Mapping[str, Any]]]:
    for definition in definitions:
        for node in definition.nodes:
            if node.connector is not None:
                yield node, node.connector
