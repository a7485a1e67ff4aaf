"""Describes a script's queries from Spark's objects.

A script has no definition before it runs. So its definition is written while it runs, query by
query, for all readers of definitions (lag, the page, SQL).
Invariant: a failure here never stops the script.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config
from headrace.connectors import undeclared_connectors
from headrace.connectors.connector import Connector
from headrace.connectors.files import ddl
from headrace.define import guarantee, triggers
from headrace.driver import pipeline, source_detection
from headrace.driver.plan_analysis import class_of, execution_of
from headrace.model.pipeline import Node, Query
from headrace.model.runs import RunSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ScriptQueries:
    spec: RunSpec
    _nodes: dict[str, Node] = field(default_factory=dict)
    _connectors: dict[str, Connector | None] = field(default_factory=dict)
    _queries: dict[str, Query] = field(default_factory=dict)

    def add(
        self, name: str, place: str, frame: DataFrame, query: StreamingQuery, checkpoint: str | None
    ) -> dict[str, Any]:
        """Returns data for the `query_started` event."""
        try:
            described, trigger = self._describe_query(name, place, frame, query, checkpoint)
            self._queries[name] = described
            nodes, queries = tuple(self._nodes.values()), tuple(self._queries.values())
            pipeline.write_definition(self.spec, self.spec.pipeline, self.spec.file, nodes, queries)
        except Exception as exc:  # a boundary: Spark Connect and third-party classes differ
            logger.info("could not describe %s: %s", name, exc)
            return {}
        facts: dict[str, Any] = {"guarantee": described.guarantee}
        if length_s := triggers.batch_length_s(trigger):
            facts["batch_length_s"] = length_s
        return facts

    def _describe_query(
        self, name: str, place: str, frame: DataFrame, query: StreamingQuery, checkpoint: str | None
    ) -> tuple[Query, triggers.Trigger]:
        execution = execution_of(query)
        trigger, sink = _trigger(execution.trigger()), _sink(execution.sink())
        sources: dict[str, Connector | None] = {}
        for detected in source_detection.detect(frame, (), Path(self.spec.project)):
            source = source_detection.free_name(detected, self._connectors)
            sources[source] = self._connectors[source] = detected.connector
            fields = detected.connector.fields() if detected.connector else None
            self._nodes[source] = Node(source, "source", place, (), fields, is_declared=False)
        reason = "no checkpoint: every start begins from scratch"
        promise = guarantee.Guarantee("none", reason, False)
        if checkpoint is not None:
            promise = guarantee.work_out(sources or {"its own": None}, sink, trigger)
        described = Query(
            name=name,
            place=place,
            inputs=tuple(sources),
            sink=sink.fields() if sink.as_files() else {"kind": sink.kind},
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
    name = class_of(sink).removesuffix("$")
    if name != "FileStreamSink":
        return undeclared_connectors.identify_sink(name)
    place = str(sink.toString()).removeprefix("FileSink[").removesuffix("]")
    member = sink.getClass().getDeclaredField("fileFormat")
    member.setAccessible(True)
    format_ = str(member.get(sink).shortName()).lower()
    return undeclared_connectors.file_sink(str(config.local_path(place) or place), format_)


def _trigger(trigger: Any) -> triggers.Trigger:
    name = class_of(trigger).removesuffix("$")
    if name == "ProcessingTimeTrigger":
        return triggers.every(trigger.intervalMs() / 1000)
    if name == "ContinuousTrigger":
        return triggers.Continuous(trigger.intervalMs() / 1000)
    if name == "RealTimeTrigger":
        return triggers.RealTime(trigger.batchDurationMs() / 1000, triggers.AsFast())
    return triggers.AvailableNow()


def _absolute(checkpoint: str | None, project: str) -> str | None:
    folder = config.local_path(checkpoint)
    return checkpoint if folder is None else str(Path(project) / folder)
