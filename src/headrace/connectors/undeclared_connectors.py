"""Connectors for sources and sinks that user code opened through Spark itself, recognised by the
names and options that Spark reports. Invariant: no secret of an option is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headrace.connectors.connector import Capabilities, Connector
from headrace.connectors.console import Console
from headrace.connectors.files import FORMATS, Files
from headrace.connectors.kafka.connector import Kafka
from headrace.connectors.memory import Memory
from headrace.connectors.rate import Rate
from headrace.connectors.socket import Socket
from headrace.connectors.user_functions import EachBatch, EachRow

_FILES = {"binaryFile": "binary"} | {name: name for name in FORMATS if name != "binary"}
_ISOLATION = "kafka.isolation.level"

Option = Callable[[str], str | None]


@dataclass(frozen=True)
class PrivateKafka(Connector):
    """Topics read with a login that only the user's code has, so Headrace cannot query them."""

    kind: ClassVar[str] = "kafka"
    capabilities: ClassVar[Capabilities] = Capabilities(
        is_source=True, is_broker=True, is_replayable=True
    )


@dataclass(frozen=True)
class UnknownSink(Connector):
    """A sink of which only the name and the delivery are known."""

    system: str
    delivery_why: str = "Headrace does not know how it handles a repeated batch"
    delivery: str = "at-least-once"

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.system

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities(delivery=self.delivery, delivery_why=self.delivery_why)


def identify_source(format: str, option: Option, project: Path) -> tuple[str, Connector | None]:
    """A name with the format and location (text:incoming, kafka:orders, socket:localhost:9999) and
    the connector, or None for an unknown format."""
    if format in _FILES:
        made = Files(option("path") or "", _FILES[format]).resolve_paths(project)
        return f"{made.kind}:{_display_path(made.identity(), project)}", made
    if format == "kafka":
        topics = option("subscribe") or option("subscribePattern") or option("assign")
        return f"kafka:{topics}", _kafka(option)
    if format == "socket":
        host, port = option("host") or "", option("port") or ""
        return f"socket:{host}:{port}", Socket(host, int(port)) if port.isdigit() else None
    return format, Rate() if format == "rate" else None


def _kafka(option: Option) -> Connector | None:
    if (option("kafka.security.protocol") or "PLAINTEXT").upper() != "PLAINTEXT":
        return PrivateKafka()
    isolation = option(_ISOLATION)
    try:
        assigned = json.loads(option("assign") or "{}")
    except ValueError:
        return None  # Spark reports the mistake
    return Kafka(
        servers=option("kafka.bootstrap.servers") or "",
        subscribe=tuple(t.strip() for t in (option("subscribe") or "").split(",") if t.strip()),
        pattern=option("subscribePattern"),
        assign=assigned,
        options={_ISOLATION: isolation} if isolation else {},
    )


def _display_path(path: str, project: Path) -> str:
    return os.path.relpath(path, project) if Path(path).is_relative_to(project) else path


def file_sink(path: str, format: str) -> Connector:
    known = Files(path, format)
    if format in FORMATS:
        return known
    return UnknownSink(format, known.capabilities.delivery_why, known.capabilities.delivery)


def _function_of_the_script(*_: object) -> None:
    """Stands for a function that only the script has."""


_SINKS: dict[str, Connector] = {
    "ConsoleTable": Console(),
    "ForeachBatchSink": EachBatch(_function_of_the_script),
    "ForeachWriterTable": EachRow(_function_of_the_script),
    "KafkaTable": UnknownSink("kafka", "after a failure, a batch is sent again"),
    "MemorySink": Memory(),
    "NoopTable": UnknownSink("noop", "it discards all rows"),
}


def identify_sink(class_name: str) -> Connector:
    return _SINKS.get(class_name) or UnknownSink(class_name)
