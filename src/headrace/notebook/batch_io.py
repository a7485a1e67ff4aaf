"""`hr.read`, `hr.write` and `hr.sql`: batch reads and writes in the user's session.

Names and relative paths work as in a pipeline: the project is the nearest parent folder with a
headrace.toml, else the working folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import config
from headrace.config import DEV, Settings
from headrace.connectors import jars, kinds
from headrace.connectors.connector import Connector
from headrace.define.sql_names import is_too_deep, too_deep
from headrace.errors import ConnectorError, DefinitionError, SetupError, SqlError
from headrace.failures.classifier import FailureText, classify
from headrace.notebook.session import STOP_AND_START
from headrace.spelling import closest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, what: Connector | str, *, stream: bool = False) -> DataFrame:
    """Read a connector, or a source or sink in headrace.toml. `stream=True` returns a stream."""
    source = _connector(what, ("sources", "sinks"))
    with _explain_missing_jars(source):
        return source.read(spark, streaming=stream)


def write(frame: DataFrame, sink: Connector | str) -> None:
    """Append a batch DataFrame to a sink: a connector, or the name of a sink in headrace.toml."""
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        raise DefinitionError(
            f"hr.write cannot write a {type(frame).__name__}.",
            why="It writes only Spark DataFrames.",
            fix="Create a DataFrame first: spark.createDataFrame(…)",
            slug="not-a-dataframe",
        )
    if frame.isStreaming:
        raise DefinitionError(
            "hr.write cannot write a stream.",
            why="A stream never ends, so writing it requires a running query with a checkpoint.",
            fix="Write it in a pipeline, with @hr.stream(to=…), or show it here: hr.display(frame)",
            slug="stream-in-batch",
        )
    target = _connector(sink, ("sinks",))
    if problem := target.sink_problem(dict(frame.dtypes)):
        raise ConnectorError(
            f"These rows cannot be written to {target.kind}: {problem}.",
            fix="Change the columns with .select(…), or change the sink's options.",
            slug="sink-schema",
        )
    with _explain_missing_jars(target):
        target.write(target.prepare_frame(frame))


def sql(text: str, *, spark: SparkSession | None = None) -> DataFrame:
    """Run SQL. If it reads a view of a stream, the result is a stream: show it with hr.display."""
    if is_too_deep(text):
        raise too_deep(SqlError)
    session = spark or active()
    if session is None:
        raise SetupError(
            "There is no Spark session.",
            why="SQL runs in this notebook's Spark session.",
            fix="Create one first: spark = hr.session()",
            slug="no-session",
        )
    try:
        return session.sql(text)
    except Exception as exc:
        if _is_depth_error(exc):
            raise too_deep(SqlError) from exc
        raise


def _is_depth_error(exc: Exception) -> bool:
    """Spark's parser reports its depth limit, or overflows the stack."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import ParseException

    if isinstance(exc, ParseException):
        return bool(exc.getCondition() == "FAILED_TO_PARSE_TOO_COMPLEX")
    if isinstance(exc, Py4JJavaError):
        return bool(exc.java_exception.getClass().getName() == "java.lang.StackOverflowError")
    return False


def active() -> SparkSession | None:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


@contextlib.contextmanager
def _explain_missing_jars(connector: Connector) -> Iterator[None]:
    """Spark only says that it does not find the data source."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as exc:
        text = FailureText(causes=((type(exc).__name__, str(exc)),))
        bundles = [jars.BUNDLES[name] for name in jars.detect_bundles([connector.kind], ())]
        if not bundles or classify(text).slug != "library-missing":
            raise
        fetch = f"In a shell, run: headrace jars fetch {bundles[0].name}. Then, in this notebook: "
        raise SetupError(
            f"This Spark session was started without the connector for {connector.kind}.",
            why="Spark loads connector jars when its JVM starts.",
            fix=("" if all(map(jars.fetched_files, bundles)) else fetch) + STOP_AND_START,
            slug="session-without-jars",
        ) from exc


def _connector(what: Connector | str, tables: tuple[str, ...]) -> Connector:
    project = config.find_project(Path.cwd())
    if isinstance(what, Connector):
        return what.resolve_paths(project)
    if not isinstance(what, str):
        raise ConnectorError(
            f"Expected a connector or a name from headrace.toml, not {what!r}.",
            fix='Use, for example, hr.parquet("data/out"), or "metrics" for [sinks.metrics].',
        )
    settings = config.load(project, os.environ.get("HEADRACE_PROFILE") or DEV)
    for table in tables:
        named = getattr(settings, table)
        if what in named:
            where = settings.place(table, what)
            return kinds.build_connector(named[what], name=what, where=where).resolve_paths(project)
    raise _unknown(what, tables, settings)


def _unknown(name: str, tables: tuple[str, ...], settings: Settings) -> ConnectorError:
    known = [key for table in tables for key in getattr(settings, table)]
    meant = closest(name, known)
    role = " or ".join(table.removesuffix("s") for table in tables)
    return ConnectorError(
        f"Unknown {role} {name!r}.",
        why=f"Defined in {settings.project / config.FILE}: {', '.join(known) or 'none'}.",
        fix=f"Did you mean {meant!r}?" if meant else f"Add [{tables[-1]}.{name}] to that file.",
        slug="unknown-sink" if tables == ("sinks",) else "unknown-input",
    )
