"""What every source and sink owes. A connector is a frozen dataclass: the same fields in Python
and in `headrace.toml`, and JSON between processes.

Class attributes say what the system can do; `define/` and the driver decide by them alone.
Invariant: pyspark only inside methods, so that processes without Spark can hold connectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace import references
from headrace.config import Settings
from headrace.errors import ConnectorError, Error, together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter


@dataclass(frozen=True)
class Connector:
    """Delivery of a sink: `exactly-once` (a batch written again changes nothing), `idempotent-if`
    (so, if the user's function sees to it) or `at-least-once`; `delivery_why` says it in words."""

    kind: ClassVar[str] = ""
    is_source: ClassVar[bool] = False
    is_sink: ClassVar[bool] = False
    can_read_back: ClassVar[bool] = False  # a stream's committed output can be read as a stream
    can_real_time: ClassVar[bool] = False
    is_broker: ClassVar[bool] = False  # there may be much of it: worth a Python worker
    limits_batches: ClassVar[bool] = False  # as a source: how much one batch may read
    has_one_writer: ClassVar[bool] = True  # as a sink: a second one would undo its work
    is_replayable: ClassVar[bool] = False  # the same rows can be had again after a restart
    needs_checkpoint: ClassVar[bool] = True  # as a sink: without one, a restart loses rows silently
    keeps_checkpoint: ClassVar[bool] = True  # as a sink: a restart may resume from one
    is_polled: ClassVar[bool] = False  # looking for new data costs: once a second is enough
    delivery: ClassVar[str] = "at-least-once"
    delivery_why: ClassVar[str] = ""
    modes: ClassVar[tuple[str, ...]] = ("append", "update", "complete")
    for_production: ClassVar[bool] = True
    not_for_production: ClassVar[str] = ""  # the reason

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        """The DataFrame: a stream, or static in a batch run. `schema` (DDL) fills in for a schema
        that the connector itself does not have."""
        raise ConnectorError(
            f"{self.kind} is not a source.",
            why="It can only be written to.",
            fix="Read from a source, for example hr.parquet(path).",
            slug="not-a-source",
        )

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        """The writer with format, options, mode, name and checkpoint; the caller sets the trigger
        and starts it."""
        raise ConnectorError(
            f"{self.kind} is not a sink.",
            why="It can only be read.",
            fix="Write to a sink, for example hr.parquet(path).",
            slug="not-a-sink",
        )

    def write(self, frame: DataFrame) -> None:
        """The rows of a batch DataFrame, appended by hand."""
        raise ConnectorError(
            f"{self.kind} takes rows of a stream only.",
            why="Nothing of it can be appended to by hand.",
            fix="Write to files, for example hr.parquet(path).",
            slug="no-batch-write",
        )

    def located(self, project: Path) -> Connector:
        """The same with relative paths counted from the project."""
        return self

    def accepting_gap(self) -> Connector:
        """The same, as a source that leaves out records that are gone instead of stopping."""
        return self

    def in_real_time(self) -> Connector:
        """The same as the sink of a real-time query."""
        return self

    def lacks_for_real_time(self) -> str | None:
        """What a setting would have to say for it to be one; None: nothing, or it never can."""
        return None

    def of_query(self, settings: Settings, pipeline: str, query: str) -> Connector:
        """The same as the sink of this query: with the folder that Headrace keeps for it."""
        return self

    def shaped(self, frame: DataFrame) -> DataFrame:
        """The query's rows as the sink takes them; lazy, and Spark's errors pass through."""
        return frame

    def lacks_as_source(self) -> str | None:
        """What would make a source of it, if one of its kind can be one."""
        return None

    def identity(self) -> str | None:
        """What it reads or writes, so that two of them can be told to be the same."""
        return None

    def feeds(self, source: Connector) -> bool:
        """Whether what it writes comes out of that source again."""
        own = self.identity()
        return own is not None and source.identity() == own

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        """Why rows of these columns (name: type) cannot be written, if they cannot."""
        return None

    def reached(self, *, as_sink: bool = False) -> str | None:
        """Really connects, for `check --connect`: what was found, in words. None: there is nothing
        to connect to. Raises what is wrong."""
        return None

    def fields(self) -> dict[str, Any]:
        """Kind and fields for JSON: defaults left out, secrets as the references they are."""
        out: dict[str, Any] = {"kind": self.kind}
        for one in fields(self):
            value = getattr(self, one.name)
            if value not in (None, (), {}, one.default):
                out[one.name] = list(value) if isinstance(value, tuple) else value
        return out


def started(
    writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
) -> DataStreamWriter:
    """Name, mode and checkpoint, that every sink sets alike."""
    writer = writer.queryName(query).outputMode(mode)
    return writer.option("checkpointLocation", checkpoint) if checkpoint else writer


def checkpoint_for_now(writer: DataStreamWriter) -> str:
    """A folder for a query that is never resumed, where Spark asks for one all the same. As with a
    console, Spark itself makes it, and its JVM removes it at the end."""
    jvm: Any = writer._spark._jvm
    folder = jvm.org.apache.spark.util.Utils.createTempDir(
        jvm.java.lang.System.getProperty("java.io.tmpdir"), "headrace"
    )
    return str(folder.getCanonicalPath())


def given_folder(kind: str, path: str | None) -> Path:
    """Of a sink that Headrace itself keeps."""
    if path is None:
        raise ConnectorError(
            f"hr.{kind} has no folder.",
            why="Headrace gives it one as the sink of a pipeline's query.",
            fix=f"Use it as @hr.stream(to=hr.{kind}(…)).",
        )
    return Path(path)


def check_all(*checks: Callable[[], object]) -> None:
    """Every check is made; raises all that they refuse, at once."""
    problems: list[Error] = []
    for check in checks:
        try:
            check()
        except Error as exc:
            problems.append(exc)
    if problems:
        raise together(problems)


def plain_options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Options as Spark takes them: text."""
    require("options", options or {}, Mapping, 'options={"name": "value"}')
    made = {}
    for name, value in (options or {}).items():
        made[str(name)] = str(value).lower() if isinstance(value, bool) else str(value)
    return made


def require(name: str, value: object, kind: type | tuple[type, ...], example: str) -> None:
    """A field of the wrong type is told as such, before it surprises anybody else."""
    if not isinstance(value, kind):
        raise ConnectorError(
            f"{name}={value!r} will not do.", fix=f"Write {example}.", slug="bad-option"
        )


def require_count(name: str, value: object) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise ConnectorError(
            f"{name}={value!r} has to be a whole number from 1.", slug="bad-option"
        )


def secret(name: str, value: str | None) -> None:
    """Only by reference: whatever stands in a file is copied with it, stored, and shown."""
    if value is not None and not references.is_in(value):
        raise ConnectorError(
            f"{name} is written out.",
            why="A secret is kept by reference, so that no copy of the code or definition has it.",
            fix=f'Write {name}="${{env:{name.upper()}}}" or "${{file:PATH}}".',
            slug="plain-secret",
        )


def resolved(options: Mapping[str, str]) -> dict[str, str]:
    """With secrets in place of their references. Called at the last moment, in the driver."""
    return {k: references.resolve(v) for k, v in options.items()}
