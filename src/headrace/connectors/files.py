"""Files in a folder, as source and as sink: text, CSV, JSON, Parquet, ORC; binary files whole.

As a source each file counts as one thing that appears at once: write it elsewhere and move it in.
Files are taken oldest first; `max_files` or `max_bytes` bound a batch. As a sink it writes exactly
once: readers that follow the folder's `_spark_metadata` never see half a batch.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.config import counted_from
from headrace.connectors.connector import (
    Connector,
    check_all,
    plain_options,
    require,
    require_count,
    resolved,
    started,
)
from headrace.errors import ConnectorError
from headrace.words import near

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

FORMATS = ("text", "csv", "json", "parquet", "orc", "avro", "binary")
_SPARK_FORMAT = {"binary": "binaryFile"}
_OWN_SCHEMA = {  # the format has it; of text Spark knows, of binary files only when not streaming
    "text": None,
    "binary": "path string, modificationTime timestamp, length bigint, content binary",
}
STOP, CONTINUE = "stop", "continue"  # what a query does when a listed file has vanished
_CARRY_SCHEMA = ("parquet", "orc", "avro")  # the files themselves say what they hold


@dataclass(frozen=True)
class Files(Connector):
    """`schema` is DDL; a source needs one unless the format has its own or files are there."""

    path: str
    format: str
    schema: str | None = None
    partition_by: tuple[str, ...] = ()
    max_files: int | None = None
    max_bytes: int | None = None
    on_missing: str = STOP
    options: Mapping[str, str] = field(default_factory=dict)

    is_source: ClassVar[bool] = True
    can_read_back: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True
    is_polled: ClassVar[bool] = True
    delivery: ClassVar[str] = "exactly-once"
    delivery_why: ClassVar[str] = "the folder's log takes every batch once"
    modes: ClassVar[tuple[str, ...]] = ("append",)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.format

    @property
    def is_sink(self) -> bool:  # type: ignore[override]
        return self.format != "binary"

    def located(self, project: Path) -> Files:
        return replace(self, path=counted_from(project, self.path))

    def identity(self) -> str:
        return self.path.removeprefix("file://").rstrip("/")

    def fields(self) -> dict[str, Any]:
        out = super().fields()
        out.pop("format")  # the kind says it
        return out

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        self._require_path()
        reader: Any = spark.readStream if streaming else spark.read
        reader = reader.format(_SPARK_FORMAT.get(self.format, self.format))
        options = resolved(self.options)
        if streaming and self.max_files:
            options["maxFilesPerTrigger"] = str(self.max_files)
        if streaming and self.max_bytes:
            options["maxBytesPerTrigger"] = str(self.max_bytes)
        if self.format in _OWN_SCHEMA:
            known = self.schema or _OWN_SCHEMA[self.format]
        else:
            known = self.schema or schema or self._found_schema(spark)
        if known is not None:
            reader = reader.schema(known)
        return reader.options(**options).load(self.path)

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        writer = started(writer, query=query, mode=mode, checkpoint=checkpoint)
        writer = writer.format(self.format).options(**resolved(self.options))
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        return writer.option("path", self.path)

    def write(self, frame: DataFrame) -> None:
        if not self.is_sink:
            super().write(frame)
        if os.path.isdir(os.path.join(self.identity(), "_spark_metadata")):
            raise ConnectorError(
                f"{self.path} is written by a stream.",
                why="Its log says which files count: rows added by hand would never be seen.",
                where=self.path,
                fix="Write to another folder, or send the rows to what the stream reads.",
                slug="sink-of-a-stream",
            )
        writer = frame.write.format(self.format).mode("append").options(**resolved(self.options))
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.save(self.path)

    def prepare_output(self, spark: SparkSession) -> None:
        """The folder and its log, so that a reader that starts before the first batch already
        follows the log: it would otherwise list the folder, and see half a batch."""
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(self.path, "_spark_metadata")
        path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).mkdirs(path)

    def read_back_columns(self, frame: DataFrame) -> DataFrame:
        """The frame as it would come back from the files, for a batch run that writes none."""
        if self.format != "text":
            return frame
        rest = [c for c in frame.columns if c not in self.partition_by]
        return frame.withColumnsRenamed({name: "value" for name in rest})

    def sink_problem(self, columns: Mapping[str, str]) -> str | None:
        missing = [c for c in self.partition_by if c not in columns]
        if missing:
            return (
                f"partition_by names {', '.join(missing)}, but the query's columns are "
                f"{', '.join(columns)}"
            )
        data = {name: kind for name, kind in columns.items() if name not in self.partition_by}
        if not data:
            return "every column is in partition_by, none is left to write"
        if self.format == "text" and list(data.values()) != ["string"]:
            held = ", ".join(f"{name} {kind}" for name, kind in data.items())
            return f"text files hold one column of text, and the query gives {held}"
        return None

    def _require_path(self) -> None:
        if re.match(r"^[a-z][a-z0-9+.-]+:", self.path) and not self.path.startswith("file:"):
            return  # on an object store Spark itself looks, and says so
        path = self.identity()
        if os.path.exists(path) or (glob.has_magic(path) and _parent_of_glob(path)):
            return
        folder, name = os.path.split(path)
        beside = os.listdir(folder) if os.path.isdir(folder) else []
        meant = near(name, beside)
        raise ConnectorError(
            f"The {self.format} source {path} does not exist.",
            why="A source has to be there before a stream starts; otherwise a mistyped path would "
            "look like a quiet day.",
            where=path,
            fix=f"Did you mean {meant!r}?" if meant else f"mkdir -p {path}",
            slug="source-missing",
        )

    def _found_schema(self, spark: SparkSession) -> str | None:
        """What the files say themselves; CSV and JSON only suggest: the next file may differ."""
        found = self._inferred(spark)
        if found and self.format in _CARRY_SCHEMA:
            return found
        example = found or "id int, name string"
        why = f"{self.format} files do not fix their columns, and a stream cannot change them."
        if self.format in _CARRY_SCHEMA:
            why = "It holds no file yet that could tell."
        raise ConnectorError(
            f"The {self.format} source {self.path} needs a schema.",
            why=why,
            where=self.path,
            fix=f'Give it {"" if found else "one, like "}schema="{example}".',
            slug="missing-schema",
        )

    def _inferred(self, spark: SparkSession) -> str | None:
        from pyspark.errors import AnalysisException

        options = {"inferSchema": "true", **resolved(self.options)}
        try:
            frame = spark.read.format(self.format).options(**options).load(self.path)
        except AnalysisException:  # an empty folder
            return None
        return ddl(frame.schema) if frame.columns else None


def ddl(schema: Any) -> str:
    """A StructType as text that Spark reads back. Its own toDDL needs a running JVM."""
    return ", ".join(f"{_quoted(one.name)} {one.dataType.simpleString()}" for one in schema.fields)


def files(
    path: str | os.PathLike[str],
    format: str = "parquet",
    *,
    schema: object = None,
    partition_by: str | list[str] | tuple[str, ...] = (),
    max_files: int | None = None,
    max_bytes: int | None = None,
    on_missing: str = STOP,
    options: Mapping[str, Any] | None = None,
) -> Files:
    text = ddl(schema) if hasattr(schema, "fields") else schema
    check_all(
        lambda: _check_format(format),
        lambda: require_count("max_files", max_files),
        lambda: require_count("max_bytes", max_bytes),
        lambda: require("path", path, (str, os.PathLike), 'path="incoming"'),
        lambda: require("partition_by", partition_by, (str, list, tuple), 'partition_by=["date"]'),
        lambda: _check_schema(text),
        lambda: _check_on_missing(on_missing),
    )
    by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    known = None if text is None else str(text)
    return Files(
        os.fspath(path), format, known, by, max_files, max_bytes, on_missing, plain_options(options)
    )


def _check_format(format: str) -> None:
    if format not in FORMATS:
        meant = near(str(format), FORMATS)
        raise ConnectorError(
            f"format={format!r} is not a file format.",
            why=f"Formats are {', '.join(FORMATS)}.",
            fix=f'Write format="{meant}".' if meant else None,
            slug="bad-format",
        )


def _check_on_missing(on_missing: str) -> None:
    if on_missing not in (STOP, CONTINUE):
        meant = near(str(on_missing), (STOP, CONTINUE)) or STOP
        raise ConnectorError(
            f"on_missing={on_missing!r} is not a choice.",
            why=f'It says what happens when a listed file has vanished: "{STOP}" or "{CONTINUE}".',
            fix=f'Write on_missing="{meant}".',
            slug="bad-option",
        )


def _check_schema(schema: object) -> None:
    if schema is not None and not isinstance(schema, str):
        raise ConnectorError(
            f"schema={schema!r} is not a schema.",
            fix='Give it as text, "id int, name string", or as a StructType.',
            slug="bad-option",
        )


def _short(format: str) -> Any:
    def make(
        path: str | os.PathLike[str],
        *,
        schema: object = None,
        partition_by: str | list[str] | tuple[str, ...] = (),
        max_files: int | None = None,
        max_bytes: int | None = None,
        on_missing: str = STOP,
        options: Mapping[str, Any] | None = None,
    ) -> Files:
        return files(
            path,
            format,
            schema=schema,
            partition_by=partition_by,
            max_files=max_files,
            max_bytes=max_bytes,
            on_missing=on_missing,
            options=options,
        )

    make.__name__ = make.__qualname__ = format
    make.__doc__ = f"Files of the format {format}: `hr.files` with that filled in."
    return make


text = _short("text")
csv = _short("csv")
json = _short("json")
parquet = _short("parquet")
orc = _short("orc")
avro = _short("avro")
binary = _short("binary")


def _parent_of_glob(path: str) -> bool:
    return os.path.isdir(glob.escape(path).split("[")[0].rpartition("/")[0] or "/")


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"
