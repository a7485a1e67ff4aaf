"""`hr.read`, `hr.write` and `hr.sql`: rows in and out of connectors by hand, in the user's session.

Names and relative paths mean what they mean in a pipeline: the project is the nearest folder
upwards with a headrace.toml, else the working folder.
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
from headrace.define.sql import is_too_deep, too_deep
from headrace.errors import ConnectorError, DefinitionError, SetupError, SqlError
from headrace.failures.classify import FailureText, classify
from headrace.notebook.session import STOP_AND_START
from headrace.words import near

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, what: Connector | str, *, stream: bool = False) -> DataFrame:
    """The rows of a connector, or of a source or sink of headrace.toml; with `stream` as they
    arrive."""
    source = _connector(what, ("sources", "sinks"))
    with _jars_explained(source):
        return source.read(spark, streaming=stream)


def write(frame: DataFrame, sink: Connector | str) -> None:
    """Append the rows of a batch DataFrame to a sink: a connector, or a name in headrace.toml."""
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        raise DefinitionError(
            f"hr.write cannot write a {type(frame).__name__}.",
            why="It writes a DataFrame of Spark.",
            fix="Make one: spark.createDataFrame(…).",
            slug="not-a-dataframe",
        )
    if frame.isStreaming:
        raise DefinitionError(
            "hr.write cannot write a stream.",
            why="A stream has no end: it needs a query with a checkpoint, that is kept running.",
            fix="In a pipeline: @hr.stream(to=…). To look at it here: hr.display(frame).",
            slug="stream-in-batch",
        )
    target = _connector(sink, ("sinks",))
    if problem := target.sink_problem(dict(frame.dtypes)):
        raise ConnectorError(
            f"{target.kind} cannot take these rows: {problem}.", slug="sink-schema"
        )
    with _jars_explained(target):
        target.write(target.shaped(frame))


def sql(text: str, *, spark: SparkSession | None = None) -> DataFrame:
    """Spark's answer to SQL text; over a view of a stream it is a stream, too: hr.display it."""
    if is_too_deep(text):
        raise too_deep(SqlError)
    session = spark or active()
    if session is None:
        raise SetupError(
            "There is no Spark session to ask.",
            why="SQL is answered by the session of this notebook.",
            fix="Make one first: spark = hr.session()",
            slug="no-session",
        )
    try:
        return session.sql(text)
    except Exception as exc:
        if _is_of_depth(exc):
            raise too_deep(SqlError) from exc
        raise


def _is_of_depth(exc: Exception) -> bool:
    """Spark's parser has met its limit; it has words for that only where it is near."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import ParseException

    if isinstance(exc, ParseException):
        return bool(exc.getCondition() == "FAILED_TO_PARSE_TOO_COMPLEX")
    if isinstance(exc, Py4JJavaError):
        return bool(exc.java_exception.getClass().getName() == "java.lang.StackOverflowError")
    return False


def active() -> SparkSession | None:
    """The session of this process, if there is one."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


@contextlib.contextmanager
def _jars_explained(connector: Connector) -> Iterator[None]:
    """Spark says only that it does not find the data source."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as exc:
        text = FailureText(causes=((type(exc).__name__, str(exc)),))
        bundles = [jars.BUNDLES[name] for name in jars.wanted([connector.kind], ())]
        if not bundles or classify(text).slug != "library-missing":
            raise
        fetch = f"In a shell: headrace jars fetch {bundles[0].name}. Then here: "
        raise SetupError(
            f"This Spark session was started without the connector for {connector.kind}.",
            why="Spark loads a connector's jars when its JVM starts.",
            fix=("" if all(map(jars.fetched, bundles)) else fetch) + STOP_AND_START,
            slug="session-without-jars",
        ) from exc


def _connector(what: Connector | str, tables: tuple[str, ...]) -> Connector:
    project = config.find_project(Path.cwd())
    if isinstance(what, Connector):
        return what.located(project)
    if not isinstance(what, str):
        raise ConnectorError(
            f"{what!r} is neither a connector nor a name.",
            fix='For example hr.parquet("data/out"), or "metrics" for [sinks.metrics].',
        )
    settings = config.load(project, os.environ.get("HEADRACE_PROFILE") or DEV)
    for table in tables:
        named = getattr(settings, table)
        if what in named:
            where = settings.place(table, what)
            return kinds.made(named[what], name=what, where=where).located(project)
    raise _unknown(what, tables, settings)


def _unknown(name: str, tables: tuple[str, ...], settings: Settings) -> ConnectorError:
    known = [one for table in tables for one in getattr(settings, table)]
    meant = near(name, known)
    role = " or ".join(table.removesuffix("s") for table in tables)
    return ConnectorError(
        f"There is no {role} {name!r}.",
        why=f"{settings.project / config.FILE} has: {', '.join(known) or 'none'}.",
        fix=f"Did you mean {meant!r}?" if meant else f"Add [{tables[-1]}.{name}] there.",
        slug="unknown-sink" if tables == ("sinks",) else "unknown-input",
    )
