"""A pipeline's run: load, define, claim every checkpoint, start every query, watch.

All that can be refused is refused before the first query starts, so a refusal leaves no trace.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, jsonfile, references
from headrace.connectors import jars
from headrace.connectors.connector import Connector
from headrace.connectors.files import Files
from headrace.define import checks, loader
from headrace.define import graph as graphs
from headrace.define.declared import Collector
from headrace.define.triggers import Continuous, RealTime, batch_length_s
from headrace.driver import (
    analyse,
    build,
    classes,
    ending,
    fleet,
    fresh,
    lock,
    private,
    realtime,
    session,
)
from headrace.driver.fleet import Claim, Fleet, Watched
from headrace.driver.signals import Signals
from headrace.driver.watch import Watch
from headrace.errors import Error, Problems, each_of, together
from headrace.model.events import Kind
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.places import Places
from headrace.model.runs import Ending, Exit, RunSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)


def run(
    spec: RunSpec, settings: config.Settings, run_dir: Path, ours: Fleet, signals: Signals
) -> Exit:
    mine = settings.for_pipeline(spec.pipeline)
    wanted = graphs.resolve(spec.pipeline, _collected(spec, spec.file), mine)
    _refuse_unusable(wanted, mine)
    if signals.is_asked_to_stop():
        return _stopped_before_start()
    spark = start_session(spec, mine, run_dir, ours, texts(wanted), realtime.wished(wanted))
    signals.install()  # PySpark has put a handler of its own in the place of ours
    built = build.build(wanted, spark, mine, version=spec.version, accept_gap=spec.accepts_gap)
    if few := _too_few_slots(spark, built):
        raise few
    _write_definition(spec, spec.pipeline, spec.file, built)
    ours.events.tell(Kind.DEFINED, data={"queries": [p.query.name for p in built.planned]})
    if signals.is_asked_to_stop():
        return _stopped_before_start()
    if spark.sparkContext.master.startswith(
        "local"
    ):  # a cluster's executors may be another account
        private.make_folders(mine, _paths(built))
    claims = [_claim(spark, spec, mine, planned, ours) for planned in built.planned]
    # A real-time query reaches a boundary only at the end of its batch.
    longest_s = max((p.trigger.batch_s for p in built.planned if isinstance(p.trigger, RealTime)),
                    default=0.0)  # fmt: skip
    drain = replace(mine.drain, timeout_s=mine.drain.timeout_s + longest_s)
    watch = Watch(ours, signals, drain, run_dir, is_open=lambda: False)
    for planned, claimed in zip(built.planned, claims, strict=True):
        try:
            after = fresh.after(built.nodes, planned.query.inputs)
            start(spark, planned, claimed, ours, after)
        except Exception as exc:  # a border: Spark may refuse a start with anything
            logger.exception("%s could not be started", planned.query.name)
            return watch.failed_to_start(planned.query.name, ending.of_exception(exc, run_dir))
    return watch.until_the_end()


def define(spec: RunSpec, settings: config.Settings, run_dir: Path, ours: Fleet) -> Exit:
    """Definition mode: every named file is loaded, built and described; nothing is started."""
    problems: list[Error] = []
    loaded = []
    for file in spec.define:
        name = Path(file).stem
        mine = settings.for_pipeline(name)
        try:
            with _named(spec, file):
                graph, found = graphs.examine(name, _collected(spec, file), mine)
        except Error as exc:
            problems += each_of(exc)
            continue
        problems += found
        if graph.queries:
            loaded.append((name, file, mine, graph, not found))
    if loaded:
        code = [text for _, _, _, graph, _ in loaded for text in texts(graph)]
        spark = start_session(spec, settings, run_dir, ours, code)
        for name, file, mine, wanted, is_sound in loaded:
            try:
                with _named(spec, file):
                    built = build.build(wanted, spark, mine, version=spec.version, prepare=False)
                if few := _too_few_slots(spark, built) if _chosen(mine) else None:
                    problems.append(few)
                elif is_sound:
                    _write_definition(spec, name, file, built)
            except Error as exc:
                problems += each_of(exc)
    if problems:
        raise Problems(list({id(p): p for p in problems}.values()))
    return Exit(Ending.FINISHED, code=0, at=time.time())


@contextlib.contextmanager
def _named(spec: RunSpec, file: str) -> Iterator[None]:
    """While the code of a file runs: if it ends this process, its name is left behind."""
    path = Places(Path(spec.state)).defining(spec.run)
    jsonfile.write_json(path, {"file": file})
    try:
        yield
    finally:
        path.unlink()


def texts(graph: graphs.Graph) -> list[str]:
    """The user's own code."""
    files = (getattr(module, "__file__", None) for module in graph.collector.modules)
    return [Path(file).read_text(encoding="utf-8", errors="replace") for file in files if file]


def _chosen(settings: config.Settings) -> bool:
    """Whether the user says how many slots there are; else they are counted for a run."""
    return "spark.master" in settings.spark


def _too_few_slots(spark: SparkSession, built: build.Built) -> Error | None:
    there = realtime.slots(spark.sparkContext.master, os.cpu_count() or 1)
    real = [p for p in built.planned if isinstance(p.trigger, RealTime)]
    if there is None or not real:
        return None
    held = {p.query.name: realtime.held(p.sources) or 1 for p in real}
    others = [p.query.name for p in built.planned if p not in real]
    return checks.too_few_slots(held, others, there)


def start_session(
    spec: RunSpec,
    settings: config.Settings,
    run_dir: Path,
    ours: Fleet,
    about: Iterable[str] = (),
    real_time: int = 0,
) -> SparkSession:
    """`about` is the code that it is for: jars of connectors that it speaks of are loaded.
    `real_time` are task slots that real-time queries will hold for good."""
    kinds = [str(t.get("kind")) for t in (*settings.sources.values(), *settings.sinks.values())]
    user = {key: references.resolve(value) for key, value in settings.spark.items()}
    conf = session.settings_of(
        spec.pipeline,
        user | jars.settings(jars.wanted(kinds, about), user),
        run_dir=run_dir,
        cores=(os.cpu_count() or 1) + real_time,
        is_short=bool(spec.define or spec.question),
        java=classes.use(classes.kept()),
        environment=os.environ,
    )
    session.write_conf(run_dir / "conf", conf, settings.spark)
    code = Places(Path(spec.state)).code(spec.version)
    session.prepare_environment(
        run_dir / "conf",
        (code / Path(spec.file).parent, code),
        is_local=conf["spark.master"].startswith("local"),
    )
    try:
        spark = session.start(conf.get(jars.PACKAGES, ""))
    finally:
        session.forget_secrets(run_dir / "conf")
    ours.attach(spark)
    ours.events.tell(Kind.RUN_STARTED, data=run_facts(spec, spark))
    return spark


def run_facts(spec: RunSpec, spark: SparkSession) -> dict[str, Any]:
    process = session.jvm_process(spark)
    return {
        "pid": os.getpid(),
        "jvm_pid": process.pid if process else None,
        "spark_version": spark.version,
        "python": sys.version.split()[0],
        "master": spark.sparkContext.master,
        "version": spec.version,
        "profile": spec.profile,
    }


def _collected(spec: RunSpec, file: str) -> Collector:
    code = Places(Path(spec.state)).code(spec.version)
    return loader.load(file, root=code, project=Path(spec.project)).collector


def _write_definition(spec: RunSpec, name: str, file: str, built: build.Built) -> None:
    queries = tuple(planned.query for planned in built.planned)
    write_definition(spec, name, file, built.nodes, queries, built.warnings)


def write_definition(
    spec: RunSpec,
    name: str,
    file: str,
    nodes: tuple[Node, ...],
    queries: tuple[Query, ...],
    warnings: tuple[Mapping[str, Any], ...] = (),
) -> None:
    definition = Definition(
        pipeline=name,
        profile=spec.profile,
        version=spec.version,
        file=file,
        nodes=nodes,
        queries=queries,
        warnings=warnings,
    )
    path = Places(Path(spec.state)).definition(spec.version, spec.profile, name)
    jsonfile.write_json(path, definition.to_json())


def _refuse_unusable(wanted: graphs.Graph, settings: config.Settings) -> None:
    """All checkpoints at once, and before a JVM is started for nothing."""
    problems: list[Error] = []
    for name in wanted.queries:
        checkpoint = wanted.nodes[name].checkpoint
        folder = _sink_folder(wanted.nodes[name].sink)
        owner = Claim(settings.name, wanted.pipeline, name, sink=folder)
        error = lock.held_elsewhere(checkpoint) or fleet.unusable(checkpoint, owner)
        problems += [error] if error else []
    if problems:
        raise together(problems)


def _sink_folder(sink: Connector) -> Path | None:
    return lock.local_path(sink.path) if isinstance(sink, Files) else None


def _paths(built: build.Built) -> list[str]:
    """Where its queries write: checkpoints and sinks."""
    queries = [planned.query for planned in built.planned]
    return [str(path) for one in queries for path in (one.checkpoint, one.sink.get("path")) if path]


def _claim(
    spark: SparkSession,
    spec: RunSpec,
    settings: config.Settings,
    planned: build.Planned,
    ours: Fleet,
) -> Any:
    query = planned.query
    if query.checkpoint is None:
        return None
    owner = Claim(
        project=settings.name,
        pipeline=spec.pipeline,
        query=query.name,
        sink=_sink_folder(planned.sink),
        fingerprint=dict(query.fingerprint),
    )
    return ours.claim(spark, query.checkpoint, owner)


def start(
    spark: SparkSession, planned: build.Planned, claimed: Any, ours: Fleet, after: list[str]
) -> None:
    query = planned.query
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", query.name)
    if claimed is not None:
        fleet.record(str(query.checkpoint), claimed)
    writer = planned.sink.attach(
        planned.frame.writeStream, query=query.name, mode=query.mode, checkpoint=query.checkpoint
    )
    if not isinstance(planned.trigger, RealTime | Continuous):  # ages at a batch's end say nothing
        ours.written.note(query.name, planned.sources)
    ours.inputs.note(query.name, planned.sources)
    ours.outages.note(query.name, analyse.addresses(planned.frame))
    ours.counts.note(query.name, planned.counted)
    with realtime.without_adaptive(spark, planned.trigger):
        started = writer.trigger(**planned.trigger.arguments()).start()
    if claimed is not None and claimed.query_id != str(started.id):
        fleet.record(str(query.checkpoint), replace(claimed, query_id=str(started.id)))
    facts: dict[str, Any] = {"guarantee": query.guarantee, "place": query.place}
    facts |= {"fresh_within_s": query.fresh_within_s, "after": after}
    facts["counted"] = planned.counted.described()
    if length_s := batch_length_s(planned.trigger):
        facts["batch_length_s"] = length_s  # silent for so long is no stall
    if query.checkpoint is None:
        facts["note"] = "starts anew: no checkpoint"
    epoch = claimed.epoch if claimed is not None else None
    ours.enter(Watched(query.name, started, query.checkpoint), epoch, facts)


def _stopped_before_start() -> Exit:
    return Exit(Ending.DRAINED, code=0, at=time.time())
