"""Runs a pipeline: loads and builds it, claims every checkpoint, starts every query, watches them.

Everything is checked before the first query starts, so a refused run changes nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import config, json_file, secrets
from headrace.connectors import jars
from headrace.connectors.connector import Connector
from headrace.define import checks, loader
from headrace.define import graph as graphs
from headrace.define.declarations import Collector
from headrace.define.triggers import Continuous, RealTime, batch_length_s
from headrace.driver import (
    build,
    checkpoint_lock,
    class_archive,
    exit_report,
    plan_analysis,
    realtime_checks,
    session,
)
from headrace.driver import running_queries as driver_queries
from headrace.driver.run_loop import RunLoop
from headrace.driver.running_queries import Claim, Queries, RunningQuery
from headrace.driver.signals import Signals
from headrace.errors import Error, Problems, each_of, together
from headrace.model import dropwizard
from headrace.model.events import EventKind
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.runs import Ending, Exit, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import definitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)


def run(
    spec: RunSpec, settings: config.Settings, run_dir: Path, queries: Queries, signals: Signals
) -> Exit:
    mine = settings.for_pipeline(spec.pipeline)
    graph = graphs.resolve(spec.pipeline, _load_collector(spec, spec.file), mine)
    _check_checkpoints(graph, mine)
    if signals.should_stop():
        return _drained_exit()
    slots = realtime_checks.estimate_slots(graph)
    spark = start_session(spec, mine, run_dir, queries, _source_texts(graph), slots)
    signals.install()  # PySpark has replaced our handler
    built = build.build(graph, spark, mine, version=spec.version, accept_gap=spec.accepts_gap)
    if problem := _too_few_slots(spark, built):
        raise problem
    queries.user_listeners.create(graph.listeners, graph.collector, spark)
    write_definition(spec, spec.pipeline, spec.file, built.nodes, built.queries, built.warnings)
    queries.events.tell(EventKind.DEFINED, data={"queries": [q.name for q in built.queries]})
    if signals.should_stop():
        return _drained_exit()
    if spark.sparkContext.master.startswith("local"):  # a cluster may write as another user
        places = [(q.checkpoint, q.sink.get("path")) for q in built.queries]
        make_private_folders(mine, [str(path) for place in places for path in place if path])
    claims = [claim(spark, mine, spec.pipeline, planned, queries) for planned in built.planned]
    # A real-time query reaches a batch boundary only at the end of its long batch.
    batches_s = [p.trigger.batch_s for p in built.planned if isinstance(p.trigger, RealTime)]
    drain = replace(mine.drain, timeout_s=mine.drain.timeout_s + max(batches_s, default=0.0))
    loop = RunLoop(queries, signals, drain, run_dir, is_open=lambda: False)
    for planned, claimed in zip(built.planned, claims, strict=True):
        try:
            start(spark, planned, claimed, queries)
        except Exception as exc:  # a boundary: Spark may refuse a start with anything
            logger.exception("%s could not be started", planned.query.name)
            exit_ = exit_report.from_exception(exc, run_dir)
            return loop.end_after_failed_start(planned.query.name, exit_)
    try:
        return loop.until_the_end()
    finally:
        queries.user_listeners.close()


def define(spec: RunSpec, settings: config.Settings, run_dir: Path, queries: Queries) -> Exit:
    """Definition mode: load and build every file in `spec.define`, and write its definition."""
    problems: list[Error] = []
    loaded = []
    for file in spec.define:
        name = Path(file).stem
        mine = settings.for_pipeline(name)
        try:
            with _mark_file_running(spec, file):
                graph, graph_problems = graphs.examine(name, _load_collector(spec, file), mine)
        except Error as exc:
            problems += each_of(exc)
            continue
        problems += graph_problems
        if graph.queries:
            loaded.append((name, file, mine, graph, not graph_problems))
    if loaded:
        code = [text for _, _, _, graph, _ in loaded for text in _source_texts(graph)]
        spark = start_session(spec, settings, run_dir, queries, code)
        for name, file, mine, graph, is_sound in loaded:
            try:
                with _mark_file_running(spec, file):
                    built = build.build(graph, spark, mine, version=spec.version, prepare=False)
                    queries.user_listeners.create(graph.listeners, graph.collector, spark)
                    queries.user_listeners.close()
                # Without a master in the settings, a run counts the slots that it needs.
                has_master = "spark.master" in mine.spark
                if has_master and (problem := _too_few_slots(spark, built)):
                    problems.append(problem)
                elif is_sound:
                    write_definition(spec, name, file, built.nodes, built.queries, built.warnings)
            except Error as exc:
                problems += each_of(exc)
    if problems:
        raise Problems(list({id(p): p for p in problems}.values()))
    return Exit(Ending.FINISHED, code=0, at=time.time())


@contextlib.contextmanager
def _mark_file_running(spec: RunSpec, file: str) -> Iterator[None]:
    """Leaves the file's name on disk if its code ends this process."""
    path = StatePaths(Path(spec.state)).defining(spec.run)
    json_file.write_json(path, {"file": file})
    try:
        yield
    finally:
        path.unlink()


def _source_texts(graph: graphs.Graph) -> list[str]:
    files = (getattr(module, "__file__", None) for module in graph.collector.modules)
    return [Path(file).read_text(encoding="utf-8", errors="replace") for file in files if file]


def _too_few_slots(spark: SparkSession, built: build.BuiltPipeline) -> Error | None:
    slots = realtime_checks.slots(spark.sparkContext.master, os.cpu_count() or 1)
    real_time = [p for p in built.planned if isinstance(p.trigger, RealTime)]
    if slots is None or not real_time:
        return None
    held = {p.query.name: realtime_checks.count_needed_slots(p.sources) or 1 for p in real_time}
    others = [p.query.name for p in built.planned if p not in real_time]
    return checks.too_few_slots(held, others, slots)


def start_session(
    spec: RunSpec,
    settings: config.Settings,
    run_dir: Path,
    queries: Queries,
    code_texts: Iterable[str] = (),
    real_time_slots: int = 0,
) -> SparkSession:
    """Loads the jars of the connectors that `code_texts` mention. `real_time_slots` are task slots
    that real-time queries occupy permanently."""
    kinds = [str(t.get("kind")) for t in (*settings.sources.values(), *settings.sinks.values())]
    is_short = bool(spec.define or spec.question)
    given = dict(settings.spark)
    if not is_short:
        given |= dropwizard.spark_settings(settings.dropwizard, given, spec.pipeline)
    user = {key: secrets.resolve(value) for key, value in given.items()}
    conf = session.settings_of(
        spec.pipeline,
        user | jars.settings(jars.detect_bundles(kinds, code_texts), user),
        run_dir=run_dir,
        cores=(os.cpu_count() or 1) + real_time_slots,
        is_short=is_short,
        java=class_archive.use(class_archive.default_path()),
        environment=os.environ,
    )
    session.write_conf(run_dir / "conf", conf, given)
    code = StatePaths(Path(spec.state)).code(spec.version)
    session.prepare_environment(
        run_dir / "conf",
        (code / Path(spec.file).parent, code),
        is_local=conf["spark.master"].startswith("local"),
    )
    try:
        spark = session.start(conf.get(jars.PACKAGES, ""))
    finally:
        session.forget_secrets(run_dir / "conf")
    queries.attach(spark)
    queries.events.tell(EventKind.RUN_STARTED, data=run_facts(spec, spark))
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


def _load_collector(spec: RunSpec, file: str) -> Collector:
    code = StatePaths(Path(spec.state)).code(spec.version)
    return loader.load(file, root=code, project=Path(spec.project)).collector


def write_definition(
    spec: RunSpec,
    name: str,
    file: str,
    nodes: tuple[Node, ...],
    queries: tuple[Query, ...],
    warnings: tuple[Mapping[str, Any], ...] = (),
) -> None:
    definition = Definition(name, spec.profile, spec.version, file, nodes, queries, warnings)
    definitions.write(StatePaths(Path(spec.state)), definition)


def _check_checkpoints(graph: graphs.Graph, settings: config.Settings) -> None:
    """Reports the problems of all checkpoints at once, before a JVM is started."""
    problems: list[Error] = []
    for name in graph.queries:
        checkpoint = graph.nodes[name].checkpoint
        owner = _owner(settings, graph.pipeline, name, graph.nodes[name].sink)
        conflict = checkpoint_lock.find_conflict(checkpoint)
        if problem := conflict or driver_queries.unusable(checkpoint, owner):
            problems.append(problem)
    if problems:
        raise together(problems)


def _owner(settings: config.Settings, pipeline: str, query: str, sink: Connector) -> Claim:
    files = sink.as_files()
    folder = config.local_path(files.path) if files else None
    return Claim(settings.name, pipeline, query, sink=folder)


def make_private_folders(settings: config.Settings, paths: Collection[str]) -> None:
    """Create the local folders of checkpoints, results and quarantine that `paths` are in, with
    access for their owner only. An existing folder keeps its mode."""
    for root in (settings.checkpoints, settings.results, settings.quarantine):
        folder = config.local_path(root)
        if folder is not None and any(path.startswith(root.rstrip("/") + "/") for path in paths):
            with contextlib.suppress(OSError):  # the first write there reports the reason
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def claim(
    spark: SparkSession,
    settings: config.Settings,
    pipeline: str,
    planned: build.PlannedQuery,
    queries: Queries,
) -> Any:
    query = planned.query
    owner = _owner(settings, pipeline, query.name, planned.sink)
    owner = replace(owner, fingerprint=dict(query.fingerprint))
    return queries.claim(spark, query.checkpoint, owner)


def start(spark: SparkSession, planned: build.PlannedQuery, claimed: Any, queries: Queries) -> None:
    query = planned.query
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", query.name)
    driver_queries.record(query.checkpoint, claimed)
    writer = planned.sink.attach(
        planned.frame.writeStream, query=query.name, mode=query.mode, checkpoint=query.checkpoint
    )
    if not isinstance(planned.trigger, RealTime | Continuous):  # they deliver before a batch ends
        queries.record_ages.note(query.name, planned.sources)
    queries.inputs.note(query.name, planned.sources)
    queries.outages.note(query.name, plan_analysis.addresses(planned.frame))
    queries.counts.note(query.name, planned.count_plan)
    with realtime_checks.without_adaptive(spark, planned.trigger):
        started = writer.trigger(**planned.trigger.arguments()).start()
    facts: dict[str, Any] = {"guarantee": query.guarantee, "place": query.place}
    facts |= {"fresh_within_s": query.fresh_within_s, "after": planned.after}
    facts["counted"] = planned.count_plan.describe()
    if length_s := batch_length_s(planned.trigger):
        facts["batch_length_s"] = length_s  # it may be silent for this long without a stall
    if query.checkpoint is None:
        facts["note"] = "starts from scratch: no checkpoint"
    queries.enter(RunningQuery(query.name, started, query.checkpoint), claimed, facts)


def _drained_exit() -> Exit:
    return Exit(Ending.DRAINED, code=0, at=time.time())
