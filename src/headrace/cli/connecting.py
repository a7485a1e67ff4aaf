"""`check --connect`: every source and sink across the network is really asked.

From the definitions and the settings alone, by our own clients: no Spark, no user code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from headrace.cli.definitions import Worst
from headrace.config import Settings
from headrace.connectors import kafkabroker, kinds
from headrace.errors import Error
from headrace.model.pipeline import Definition, Node
from headrace.project import outlets


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody to ask: `ask` returns what it found, None if there is nobody across a network."""

    name: str
    kind: str
    place: str
    ask: Callable[[], str | None]


def reached(settings: Settings, definitions: Sequence[Definition]) -> list[dict[str, str]]:
    """What each said: name, kind, found. Raises every problem at once."""
    said: list[dict[str, str]] = []
    problems: list[Error] = []
    for one in (*_of_pipelines(definitions), *_of_project(settings)):
        try:
            found = one.ask()
        except Error as exc:
            exc.what, exc.where = f"{one.name}: {exc.what}", exc.where or one.place
            problems.append(exc)
            continue
        if found is not None:
            said.append({"name": one.name, "kind": one.kind, "found": found})
    if problems:
        raise problems[0] if len(problems) == 1 else Worst(problems)
    return said


def _of_pipelines(definitions: Sequence[Definition]) -> Iterator[Asked]:
    seen: set[str] = set()
    for node in (node for definition in definitions for node in definition.nodes):
        fields = node.connector
        same = json.dumps([node.kind == "query", fields], sort_keys=True)
        if fields is None or same in seen or kinds.maker(fields["kind"]) is None:
            continue
        if not node.is_declared and set(fields) == {"kind"}:
            continue  # only the code knows how to log in there
        seen.add(same)
        yield Asked(node.name, str(fields["kind"]), node.place, partial(_reach, node))


def _reach(node: Node) -> str | None:
    made = kinds.made(node.connector or {}, name=node.name)
    return made.reached(as_sink=node.kind == "query")


def _of_project(settings: Settings) -> Iterator[Asked]:
    for one in outlets.listed(settings):
        made = one.made(settings)
        if made is not None:
            ask = partial(kafkabroker.reached, made, one.wanted)
            yield Asked(one.setting, made.kind, one.place, ask)
