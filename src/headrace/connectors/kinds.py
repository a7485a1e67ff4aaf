"""The kinds of sources and sinks: one table, and an entry point group for other packages.

`build_connector` turns a table of `headrace.toml` (or of definition.json) into a connector. A
connector's module is imported when its kind is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from headrace.connectors.connector import Connector
from headrace.connectors.settings_tables import build_from_fields
from headrace.errors import ConnectorError
from headrace.spelling import closest


@dataclass(frozen=True, slots=True)
class Kind:
    """`maker` is the function whose parameters are the connector's fields; `jars` is the bundle of
    jars that its connectors need. `has_topics`: Kafka's client can read it (`as_kafka`)."""

    maker: str
    jars: str = ""
    has_topics: bool = False


KINDS = {
    **{
        name: Kind(f"headrace.connectors.files:{name}")
        for name in ("files", "text", "csv", "json", "parquet", "orc", "avro", "binary")
    },
    "rate": Kind("headrace.connectors.rate:rate"),
    "socket": Kind("headrace.connectors.socket:socket"),
    "kafka": Kind("headrace.connectors.kafka.connector:kafka", "kafka", has_topics=True),
    "event_hubs": Kind("headrace.connectors.kafka.event_hubs:event_hubs", "kafka", has_topics=True),
    "console": Kind("headrace.connectors.console:console"),
    "memory": Kind("headrace.connectors.memory:memory"),
    "live": Kind("headrace.connectors.live:live"),
    "alert": Kind("headrace.connectors.alert:alert"),
}
GROUP = "headrace.connectors"
_ONLY_PYTHON = ("each_row", "each_batch")


def names() -> list[str]:
    return sorted({*KINDS, *(one.name for one in entry_points(group=GROUP))})


def has_topics(kind: object) -> bool:
    return isinstance(kind, str) and kind in KINDS and KINDS[kind].has_topics


def maker(kind: str) -> Callable[..., Connector] | None:
    own = [EntryPoint(kind, KINDS[kind].maker, GROUP)] if kind in KINDS else ()
    found = next(iter(own or entry_points(group=GROUP, name=kind)), None)
    made: Callable[..., Connector] | None = found.load() if found else None
    return made


def build_connector(
    table: Mapping[str, Any], *, name: str = "", where: str | None = None
) -> Connector:
    kind = table.get("kind")
    title = f"{name!r}" if name else "The connector"
    make = maker(kind) if isinstance(kind, str) else None
    if make is None:
        raise _unknown_kind(title, kind, where)
    given = {key: value for key, value in table.items() if key != "kind"}
    return build_from_fields(make, str(kind), given, title=title, where=where)


def _unknown_kind(title: str, kind: object, where: str | None) -> ConnectorError:
    if kind in _ONLY_PYTHON:
        return ConnectorError(
            f"{title}: {kind} needs a function, so it cannot be set in headrace.toml.",
            where=where,
            fix=f"Write to=hr.{kind}(function) in the pipeline's file.",
            slug="unknown-kind",
        )
    meant = closest(str(kind), names())
    problem = "has no kind" if kind is None else f"has an unknown kind: {kind!r}"
    return ConnectorError(
        f"{title} {problem}.",
        why=f"Allowed: {', '.join(names())}.",
        where=where,
        fix=f'Write kind = "{meant}".' if meant else 'Write, for example, kind = "parquet".',
        slug="unknown-kind",
    )
