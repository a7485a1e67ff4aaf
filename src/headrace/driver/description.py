"""What a script's queries are, told from what Spark has made of them.

A script is known only by running it. So its definition is written while it runs, query by query,
and whoever reads definitions (lag, the page, SQL) knows it like a pipeline.
Invariant: whatever Spark says or the disk does, the script goes on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.connectors.connector import Connector
from headrace.connectors.console import Console
from headrace.connectors.each import EachBatch, EachRow
from headrace.connectors.files import FORMATS, Files, ddl
from headrace.connectors.memory import Memory
from headrace.define import guarantee, triggers
from headrace.driver import lock, pipeline, recognition
from headrace.model.pipeline import Node, Query
from headrace.model.runs import RunSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Foreign(Connector):
    """A sink of which only the name is known, and what it does with a batch that comes again."""

    system: str
    again: str = "what it does with a batch that comes again is not known to Headrace"
    level: str = "at-least-once"

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.system

    @property
    def delivery(self) -> str:  # type: ignore[override]
        return self.level

    @property
    def delivery_why(self) -> str:  # type: ignore[override]
        return self.again


def _the_scripts_own(*_: object) -> None:
    """In the place of a function that only the script has."""


_SINKS: dict[str, Connector] = {  # by the name of Spark's class
    "ConsoleTable": Console(),
    "ForeachBatchSink": EachBatch(_the_scripts_own),
    "ForeachWriterTable": EachRow(_the_scripts_own),
    "KafkaTable": Foreign("kafka", "after a failure a batch is sent again"),
    "MemorySink": Memory(),
    "NoopTable": Foreign("noop", "it keeps nothing"),
}


@dataclass(slots=True)
class Description:
    """Grows with every query that the script starts."""

    spec: RunSpec
    _nodes: dict[str, Node] = field(default_factory=dict)
    _connectors: dict[str, Connector | None] = field(default_factory=dict)
    _queries: dict[str, Query] = field(default_factory=dict)

    def add(
        self, name: str, place: str, frame: DataFrame, query: StreamingQuery, checkpoint: str | None
    ) -> dict[str, Any]:
        """-> what `query_started` says of it"""
        try:
            described, trigger = self._described(name, place, frame, query, checkpoint)
            self._queries[name] = described
            nodes, queries = tuple(self._nodes.values()), tuple(self._queries.values())
            pipeline.write_definition(self.spec, self.spec.pipeline, self.spec.file, nodes, queries)
        except Exception as exc:  # a border: Spark Connect and others' classes answer otherwise
            logger.info("what %s reads and writes is not known: %s", name, exc)
            return {}
        length_s = triggers.batch_length_s(trigger)
        return {"guarantee": described.guarantee} | (
            {"batch_length_s": length_s} if length_s else {}
        )

    def _described(
        self, name: str, place: str, frame: DataFrame, query: StreamingQuery, checkpoint: str | None
    ) -> tuple[Query, triggers.Trigger]:
        execution: Any = query._jsq.streamingQuery()
        trigger, sink = _trigger(execution.trigger()), _sink(execution.sink())
        sources: dict[str, Connector | None] = {}
        for one in recognition.recognised(frame, (), Path(self.spec.project)):
            source = recognition.free_name(one, self._connectors)
            sources[source] = self._connectors[source] = one.connector
            fields = one.connector.fields() if one.connector else None
            self._nodes[source] = Node(source, "source", place, (), fields, is_declared=False)
        promise = guarantee.Guarantee("none", "no checkpoint: every start begins anew", False)
        if checkpoint is not None:
            promise = guarantee.work_out(sources or {"its own": None}, sink, trigger)
        described = Query(
            name=name,
            place=place,
            inputs=tuple(sources),
            sink=sink.fields() if isinstance(sink, Files) else {"kind": sink.kind},
            mode=str(execution.outputMode().toString()).lower(),
            trigger=trigger.to_json(),
            checkpoint=_absolute(checkpoint, self.spec.project),
            guarantee=promise.level,
            guarantee_why=promise.why,
            schema=ddl(frame.schema),
        )
        self._nodes[name] = Node(name, "query", place, tuple(sources), schema=described.schema)
        return described, trigger


def _sink(sink: Any) -> Connector:
    name = _class(sink)
    if name != "FileStreamSink":
        return _SINKS.get(name) or Foreign(name)
    place = str(sink.toString()).removeprefix("FileSink[").removesuffix("]")
    member = sink.getClass().getDeclaredField("fileFormat")
    member.setAccessible(True)
    format_ = str(member.get(sink).shortName()).lower()
    if format_ not in FORMATS:
        return Foreign(format_, Files.delivery_why, Files.delivery)
    return Files(str(lock.local_path(place) or place), format_)


def _trigger(trigger: Any) -> triggers.Trigger:
    name = _class(trigger)
    if name == "ProcessingTimeTrigger":
        return triggers.every(trigger.intervalMs() / 1000)
    if name == "ContinuousTrigger":
        return triggers.Continuous(trigger.intervalMs() / 1000)
    if name == "RealTimeTrigger":
        return triggers.RealTime(trigger.batchDurationMs() / 1000, triggers.AsFast())
    return triggers.AvailableNow()


def _absolute(checkpoint: str | None, project: str) -> str | None:
    if checkpoint is None:
        return None
    place = lock.local_path(checkpoint)
    return checkpoint if place is None else str(Path(project) / place)


def _class(thing: Any) -> str:
    return str(thing.getClass().getSimpleName()).removesuffix("$")
