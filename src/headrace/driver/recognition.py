"""Sources that a function reads itself, recognised from its plan, as if they were declared.

Used by `frames` for pipelines and by `described` for scripts. A source of an unknown kind keeps its
name and has no connector. Invariant: no secret of an option is taken along.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headrace.connectors.connector import Connector
from headrace.connectors.files import FORMATS, Files
from headrace.connectors.kafka import Kafka
from headrace.connectors.rate import Rate
from headrace.connectors.socket import Socket
from headrace.driver import analyse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILES = {"binaryFile": "binary"} | {name: name for name in FORMATS if name != "binary"}
_ISOLATION = "kafka.isolation.level"

Option = Callable[[str], str | None]


@dataclass(frozen=True)
class Recognised:
    """`name` says what it is and where: text:incoming, kafka:orders, socket:localhost:9999."""

    name: str
    connector: Connector | None


@dataclass(frozen=True)
class PrivateKafka(Connector):
    """Topics that are read with a login that only the user's code has: nobody else can ask."""

    kind: ClassVar[str] = "kafka"
    is_source: ClassVar[bool] = True
    is_broker: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True


def recognised(
    frame: DataFrame, inputs: Iterable[DataFrame], project: Path
) -> tuple[Recognised, ...]:
    """The streaming sources of a frame that none of its inputs has brought, each once."""
    found: list[Recognised] = []
    known = [source for one in inputs for source in _each(one, project)]
    for source in _each(frame, project):
        if source not in known and source not in found:
            found.append(source)
    return tuple(found)


def free_name(one: Recognised, taken: Mapping[str, object]) -> str:
    """Its name; with a number if `taken` has something else under it."""
    name = one.name
    for number in itertools.count(2):
        if name not in taken or taken[name] == one.connector:
            break
        name = f"{one.name} {number}"
    return name


def _each(frame: DataFrame, project: Path) -> Iterator[Recognised]:
    for kind, option in analyse.relations(frame):
        yield _recognised(kind, option, project)


def _recognised(kind: str, option: Option, project: Path) -> Recognised:
    if kind in _FILES:
        made = Files(option("path") or "", _FILES[kind]).located(project)
        return Recognised(f"{made.kind}:{_shown(made.identity(), project)}", made)
    if kind == "kafka":
        topics = option("subscribe") or option("subscribePattern") or option("assign")
        return Recognised(f"kafka:{topics}", _kafka(option))
    if kind == "socket":
        host, port = option("host") or "", option("port") or ""
        made_of = Socket(host, int(port)) if port.isdigit() else None
        return Recognised(f"socket:{host}:{port}", made_of)
    return Recognised(kind, Rate() if kind == "rate" else None)


def _kafka(option: Option) -> Connector | None:
    if (option("kafka.security.protocol") or "PLAINTEXT").upper() != "PLAINTEXT":
        return PrivateKafka()
    isolation = option(_ISOLATION)
    try:
        assigned = json.loads(option("assign") or "{}")
    except ValueError:
        return None  # Spark will say what is wrong with it
    return Kafka(
        servers=option("kafka.bootstrap.servers") or "",
        subscribe=tuple(t.strip() for t in (option("subscribe") or "").split(",") if t.strip()),
        pattern=option("subscribePattern"),
        assign=assigned,
        options={_ISOLATION: isolation} if isolation else {},
    )


def _shown(path: str, project: Path) -> str:
    return os.path.relpath(path, project) if Path(path).is_relative_to(project) else path
