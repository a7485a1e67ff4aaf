"""The interface of sources and sinks. A connector is a frozen dataclass with the same fields in
Python, in `headrace.toml` and in the JSON between processes.

`capabilities` describes what a system can do; other packages decide by it and never by class.
Invariant: pyspark is imported only inside methods, so processes without Spark can use connectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar

from headrace import secrets
from headrace.config import Settings
from headrace.errors import ConnectorError, Error, together
from headrace.spelling import closest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from headrace.connectors.files import Files
    from headrace.connectors.kafka.connector import Kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a connector can do. `delivery` is `exactly-once`, `at-least-once`, or `idempotent-if`
    (exactly once if the user's function is idempotent)."""

    is_source: bool = False
    is_sink: bool = False
    is_broker: bool = False  # a message broker: its high volume justifies a Python worker
    can_run_in_real_time: bool = False
    is_replayable: bool = False  # source: a restart can read the same rows again
    is_polled: bool = False  # source: listing new data is expensive, once a second is enough
    has_batch_limit: bool = False  # source: a field limits how much one batch reads
    can_read_back: bool = False  # sink: other queries can read its committed output as a stream
    has_one_writer: bool = True  # sink: a second writer would corrupt the output
    needs_checkpoint: bool = True  # sink: without one, a restart silently loses rows
    can_resume: bool = True  # sink: a restart may resume from a checkpoint
    modes: tuple[str, ...] = ("append", "update", "complete")
    delivery: str = "at-least-once"
    delivery_why: str = ""
    not_for_production: str = ""  # the reason; empty for a connector that is fit for production


@dataclass(frozen=True)
class Connector:
    kind: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        """A streaming DataFrame, or a static one in a batch run. `schema` (DDL) is used if the
        connector has no schema."""
        raise ConnectorError(
            f"{self.kind} is not a source.",
            why="It can only be written to.",
            fix="Read from a source, for example hr.parquet(path).",
            slug="not-a-source",
        )

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        """Set name, mode, checkpoint, format and options; the caller sets the trigger and starts
        the query."""
        writer = configure_writer(writer, query=query, mode=mode, checkpoint=checkpoint)
        return self.configure(writer, mode)

    def configure(self, writer: DataStreamWriter, mode: str) -> DataStreamWriter:
        """Set format and options, or the function that gets the batches."""
        raise ConnectorError(
            f"{self.kind} is not a sink.",
            why="It can only be read from.",
            fix="Write to a sink, for example hr.parquet(path).",
            slug="not-a-sink",
        )

    def write(self, frame: DataFrame) -> None:
        """Append the rows of a batch DataFrame."""
        raise ConnectorError(
            f"{self.kind} does not support batch writes.",
            why="Only a stream can write to it.",
            fix="Write to files, for example hr.parquet(path).",
            slug="no-batch-write",
        )

    def as_kafka(self, *, is_source: bool = True) -> Kafka | None:
        """The Kafka connector that reaches the same topics; None for other systems. Resolves
        secrets where the connection string is one."""
        return None

    def as_files(self) -> Files | None:
        """Itself if it reads or writes files in a folder."""
        return None

    def resolve_paths(self, project: Path) -> Connector:
        """Make relative paths absolute, starting from the project."""
        return self

    def accepting_gap(self) -> Connector:
        """A source that skips deleted records instead of stopping."""
        return self

    def in_real_time(self) -> Connector:
        """The sink to use in a real-time query."""
        return self

    def lacks_for_real_time(self) -> str | None:
        """The missing setting that would let it run in real time, if there is one."""
        return None

    def bind_to_query(self, settings: Settings, pipeline: str, query: str) -> Connector:
        """The sink of this query, with the folder that Headrace manages for it."""
        return self

    def prepare_frame(self, frame: DataFrame) -> DataFrame:
        """Convert the query's rows to what the sink expects; lazy, and Spark's errors pass."""
        return frame

    def lacks_as_source(self) -> str | None:
        """The missing fields that would make it a source, if its kind can be one."""
        return None

    def identity(self) -> str | None:
        """Identifies the data it reads or writes: equal for two connectors to the same data."""
        return None

    def feeds(self, source: Connector) -> bool:
        """Whether the source reads what this sink writes."""
        own = self.identity()
        return own is not None and source.identity() == own

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        """Why rows with these columns (name: type) cannot be written."""
        return None

    def check_connection(self, *, as_sink: bool = False) -> str | None:
        """Connect, for `check --connect`, and describe what was found. None if there is nothing to
        connect to. Raises on failure."""
        return None

    def user_code(self) -> CodeType | None:
        """The code of the user's function, if the connector calls one."""
        return None

    def fields(self) -> dict[str, Any]:
        """Kind and fields for JSON, without defaults; secrets stay references."""
        out: dict[str, Any] = {"kind": self.kind}
        for one in fields(self):
            value = getattr(self, one.name)
            if value not in (None, (), {}, one.default):
                out[one.name] = list(value) if isinstance(value, tuple) else value
        return out


def configure_writer(
    writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
) -> DataStreamWriter:
    writer = writer.queryName(query).outputMode(mode)
    return writer.option("checkpointLocation", checkpoint) if checkpoint else writer


def create_temp_checkpoint(writer: DataStreamWriter) -> str:
    """For a query that never resumes, where Spark requires a checkpoint. Spark creates it and its
    JVM deletes it at exit."""
    jvm: Any = writer._spark._jvm
    folder = jvm.org.apache.spark.util.Utils.createTempDir(
        jvm.java.lang.System.getProperty("java.io.tmpdir"), "headrace"
    )
    return str(folder.getCanonicalPath())


def query_id(frame: DataFrame) -> str:
    """In `foreachBatch`: Spark sets it in the thread that runs a batch."""
    found = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise ConnectorError(
            "Spark did not report which query a batch belongs to.",
            why="Spark sets the query's id only in the thread that runs the batch.",
            fix="Write the batch in that thread, not in one that your code started.",
        )
    return str(found)


def require_folder(kind: str, path: str | None) -> Path:
    if path is None:
        raise ConnectorError(
            f"hr.{kind} has no folder.",
            why="Headrace assigns the folder when the sink is used in @hr.stream.",
            fix=f"Write @hr.stream(to=hr.{kind}(…)).",
        )
    return Path(path)


def check_all(*checks: Callable[[], object]) -> None:
    problems: list[Error] = []
    for check in checks:
        try:
            check()
        except Error as exc:
            problems.append(exc)
    if problems:
        raise together(problems)


def plain_options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Options as text, as Spark expects them."""
    require("options", options or {}, Mapping, 'options={"name": "value"}')
    made = {}
    for name, value in (options or {}).items():
        made[str(name)] = str(value).lower() if isinstance(value, bool) else str(value)
    return made


def require(name: str, value: object, kind: type | tuple[type, ...], example: str) -> None:
    if not isinstance(value, kind):
        raise ConnectorError(
            f"Invalid {name}: {value!r}.", fix=f"Write {example}.", slug="bad-option"
        )


def require_choice(
    name: str, value: object, allowed: Sequence[str | None], *, slug: str = "bad-option"
) -> None:
    if value not in allowed:
        names = [one for one in allowed if one]
        meant = closest(str(value), names)
        raise ConnectorError(
            f"Invalid {name}: {value!r}. Allowed: {', '.join(names)}.",
            fix=f'Write {name}="{meant}".' if meant else None,
            slug=slug,
        )


def require_count(name: str, value: object) -> None:
    if value is not None:
        require_int(name, value)


def require_int(
    name: str,
    value: object,
    most: int | None = None,
    *,
    why: str | None = None,
    fix: str | None = None,
) -> None:
    if type(value) is not int or value < 1 or (most is not None and value > most):
        allowed = "greater than 0" if most is None else f"from 1 to {most:,}"
        what = f"Invalid {name}: {value!r}. It must be a whole number {allowed}."
        raise ConnectorError(what, why=why, fix=fix, slug="bad-option")


def require_secret_reference(name: str, value: str | None) -> None:
    """Plain text would be copied, stored and shown together with the definition."""
    if value is not None and not secrets.is_in(value):
        raise ConnectorError(
            f"{name} contains a secret in plain text.",
            why="Secrets must be references, so that no copy of the code contains them.",
            fix=f'Write {name}="${{env:{name.upper()}}}" or "${{file:PATH}}".',
            slug="plain-secret",
        )


def resolve_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Replace references by secrets. Called at the last moment, in the driver."""
    return {k: secrets.resolve(v) for k, v in options.items()}
