"""Which kinds of source and sink there are: one table, and an entry point group for others' own.

`made` turns a table of `headrace.toml` (or of definition.json) into a connector; what is wrong in
it is told with the near miss. A connector's module is imported when its kind is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from headrace.connectors.connector import Connector
from headrace.connectors.fields import fitted
from headrace.errors import ConnectorError
from headrace.words import near

KINDS = {
    "files": "headrace.connectors.files:files",
    "text": "headrace.connectors.files:text",
    "csv": "headrace.connectors.files:csv",
    "json": "headrace.connectors.files:json",
    "parquet": "headrace.connectors.files:parquet",
    "orc": "headrace.connectors.files:orc",
    "avro": "headrace.connectors.files:avro",
    "binary": "headrace.connectors.files:binary",
    "rate": "headrace.connectors.rate:rate",
    "socket": "headrace.connectors.socket:socket",
    "kafka": "headrace.connectors.kafka:kafka",
    "event_hubs": "headrace.connectors.event_hubs:event_hubs",
    "console": "headrace.connectors.console:console",
    "memory": "headrace.connectors.memory:memory",
    "live": "headrace.connectors.live:live",
    "alert": "headrace.connectors.alert:alert",
}
GROUP = "headrace.connectors"
_ONLY_PYTHON = ("each_row", "each_batch")


def names() -> list[str]:
    return sorted({*KINDS, *(one.name for one in entry_points(group=GROUP))})


def maker(kind: str) -> Callable[..., Connector] | None:
    """The function that makes a connector of this kind: its parameters are the fields."""
    if target := KINDS.get(kind):
        module, _, name = target.partition(":")
        made: Callable[..., Connector] = getattr(importlib.import_module(module), name)
        return made
    for one in entry_points(group=GROUP):
        if one.name == kind:
            loaded: Callable[..., Connector] = one.load()
            return loaded
    return None


def made(table: Mapping[str, Any], *, name: str = "", where: str | None = None) -> Connector:
    """A connector from its kind and fields. `where` is the place of the table, for errors."""
    kind = table.get("kind")
    title = f"{name!r}" if name else "The connector"
    make = maker(kind) if isinstance(kind, str) else None
    if make is None:
        raise _unknown_kind(title, kind, where)
    given = {key: value for key, value in table.items() if key != "kind"}
    return fitted(make, str(kind), given, title=title, where=where)


def _unknown_kind(title: str, kind: object, where: str | None) -> ConnectorError:
    if kind in _ONLY_PYTHON:
        return ConnectorError(
            f"{title}: {kind} needs a function, so it cannot stand in headrace.toml.",
            where=where,
            fix=f"Write to=hr.{kind}(function) in the pipeline's file.",
            slug="unknown-kind",
        )
    meant = near(str(kind), names())
    said = "has no kind" if kind is None else f"has the unknown kind {kind!r}"
    return ConnectorError(
        f"{title} {said}.",
        why=f"Kinds are {', '.join(names())}.",
        where=where,
        fix=f'Write kind = "{meant}".' if meant else 'For example kind = "parquet".',
        slug="unknown-kind",
    )
