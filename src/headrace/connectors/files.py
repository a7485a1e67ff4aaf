"""Files in a folder, as source and sink: text, CSV, JSON, Parquet, ORC, Avro, and binary files.

A source expects files to appear atomically: write them elsewhere and move them in. It reads the
oldest first; `max_files` or `max_bytes` limit a batch. The sink is exactly-once for readers that
follow the folder's `_spark_metadata`.
"""

from __future__ import annotations

import glob
import inspect
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.config import resolve_path
from headrace.connectors.connector import (
    Capabilities,
    Connector,
    check_all,
    plain_options,
    require,
    require_choice,
    require_count,
    resolve_secrets,
)
from headrace.errors import ConnectorError
from headrace.spelling import suggest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

FORMATS = ("text", "csv", "json", "parquet", "orc", "avro", "binary")
_SPARK_FORMAT = {"binary": "binaryFile"}
_OWN_SCHEMA = {  # fixed by the format; Spark knows text, and binary only when not streaming
    "text": None,
    "binary": "path string, modificationTime timestamp, length bigint, content binary",
}
STOP, CONTINUE = "stop", "continue"  # what a query does when a listed file is missing
_CARRY_SCHEMA = ("parquet", "orc", "avro")  # each file contains its schema


@dataclass(frozen=True)
class Files(Connector):
    """`schema` is DDL; a source needs one unless the format or existing files provide it."""

    path: str
    format: str
    schema: str | None = None
    partition_by: tuple[str, ...] = ()
    max_files: int | None = None
    max_bytes: int | None = None
    on_missing: str = STOP
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.format

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities(
            is_source=True,
            is_sink=self.format != "binary",
            is_replayable=True,
            is_polled=True,
            can_read_back=True,
            modes=("append",),
            delivery="exactly-once",
            delivery_why="the folder's log accepts each batch once",
        )

    def as_files(self) -> Files:
        return self

    def resolve_paths(self, project: Path) -> Files:
        return replace(self, path=resolve_path(project, self.path))

    def identity(self) -> str:
        return self.path.removeprefix("file://").rstrip("/")

    def fields(self) -> dict[str, Any]:
        out = super().fields()
        out.pop("format")  # the kind is the format
        return out

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        self._require_path()
        reader: Any = spark.readStream if streaming else spark.read
        reader = reader.format(_SPARK_FORMAT.get(self.format, self.format))
        options = resolve_secrets(self.options)
        if streaming and self.max_files:
            options["maxFilesPerTrigger"] = str(self.max_files)
        if streaming and self.max_bytes:
            options["maxBytesPerTrigger"] = str(self.max_bytes)
        known = self.schema or _OWN_SCHEMA.get(self.format)
        if self.format not in _OWN_SCHEMA:
            known = known or schema or self._find_schema(spark)
        if known is not None:
            reader = reader.schema(known)
        return reader.options(**options).load(self.path)

    def configure(self, writer: DataStreamWriter, mode: str) -> DataStreamWriter:
        configured: DataStreamWriter = self._with_format(writer).option("path", self.path)
        return configured

    def write(self, frame: DataFrame) -> None:
        if not self.capabilities.is_sink:
            super().write(frame)
        if os.path.isdir(os.path.join(self.identity(), "_spark_metadata")):
            raise ConnectorError(
                f"A stream writes to {self.path}, so a batch job cannot write there.",
                why="Readers of this folder use the stream's file log, so they would never see the "
                "batch job's rows.",
                where=self.path,
                fix="Write to another folder, or send the rows to the stream's source.",
                slug="sink-of-a-stream",
            )
        self._with_format(frame.write.mode("append")).save(self.path)

    def _with_format(self, writer: Any) -> Any:
        writer = writer.format(self.format).options(**resolve_secrets(self.options))
        return writer.partitionBy(*self.partition_by) if self.partition_by else writer

    def prepare_output(self, spark: SparkSession) -> None:
        """Create the folder and its log: a reader that starts before the first batch would
        otherwise list the folder, and see partial batches."""
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(self.path, "_spark_metadata")
        path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).mkdirs(path)

    def read_back_columns(self, frame: DataFrame) -> DataFrame:
        """The frame as the files would return it, for a batch run, which writes none."""
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
            return "partition_by names every column, so no column is left to write"
        if self.format == "text" and list(data.values()) != ["string"]:
            held = ", ".join(f"{name} {kind}" for name, kind in data.items())
            return f"a text file can hold only one string column, but the query has {held}"
        return None

    def _require_path(self) -> None:
        if re.match(r"^[a-z][a-z0-9+.-]+:", self.path) and not self.path.startswith("file:"):
            return  # on an object store Spark checks it
        path = self.identity()
        if os.path.exists(path) or (glob.has_magic(path) and _parent_of_glob(path)):
            return
        folder, name = os.path.split(path)
        beside = os.listdir(folder) if os.path.isdir(folder) else []
        raise ConnectorError(
            f"The {self.format} source {path} does not exist.",
            why="A source must exist before a stream starts. Otherwise, a mistyped path would "
            "look like a source without new data.",
            where=path,
            fix=suggest(name, beside, f"mkdir -p {path}"),
            slug="source-missing",
        )

    def _find_schema(self, spark: SparkSession) -> str | None:
        """The schema in the files. For CSV and JSON it is only suggested: the next file may
        differ."""
        found = self._infer_schema(spark)
        if found and self.format in _CARRY_SCHEMA:
            return found
        why = f"{self.format} files can differ in their columns, but a stream needs fixed columns."
        if self.format in _CARRY_SCHEMA:
            why = "The folder contains no files to read the schema from."
        example = 'Add one, for example schema="id int, name string".'
        raise ConnectorError(
            f"The {self.format} source {self.path} needs a schema.",
            why=why,
            where=self.path,
            fix=f'Add schema="{found}".' if found else example,
            slug="missing-schema",
        )

    def _infer_schema(self, spark: SparkSession) -> str | None:
        from pyspark.errors import AnalysisException

        options = {"inferSchema": "true", **resolve_secrets(self.options)}
        try:
            frame = spark.read.format(self.format).options(**options).load(self.path)
        except AnalysisException:  # an empty folder
            return None
        return ddl(frame.schema) if frame.columns else None


def ddl(schema: Any) -> str:
    """A StructType as DDL. Spark's toDDL needs a running JVM."""
    return ", ".join(
        f"{_quote_name(one.name)} {one.dataType.simpleString()}" for one in schema.fields
    )


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
        lambda: require_choice("format", format, FORMATS, slug="bad-format"),
        lambda: require_count("max_files", max_files),
        lambda: require_count("max_bytes", max_bytes),
        lambda: require("path", path, (str, os.PathLike), 'path="incoming"'),
        lambda: require("partition_by", partition_by, (str, list, tuple), 'partition_by=["date"]'),
        lambda: _check_schema(text),
        lambda: require_choice("on_missing", on_missing, (STOP, CONTINUE)),
    )
    by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    known = None if text is None else str(text)
    return Files(
        os.fspath(path), format, known, by, max_files, max_bytes, on_missing, plain_options(options)
    )


def _check_schema(schema: object) -> None:
    if schema is not None and not isinstance(schema, str):
        raise ConnectorError(
            f"Invalid schema: {schema!r}.",
            fix='Write it as DDL ("id int, name string") or as a StructType.',
            slug="bad-option",
        )


def _for_format(format: str) -> Any:
    def make(path: str | os.PathLike[str], **fields: Any) -> Files:
        return files(path, format, **fields)

    own = inspect.signature(files)
    shown = [one for name, one in own.parameters.items() if name != "format"]
    make.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    make.__name__ = make.__qualname__ = format
    make.__doc__ = f"`hr.files` with the format {format}."
    return make


text, csv, json, parquet, orc, avro, binary = map(_for_format, FORMATS)


def _parent_of_glob(path: str) -> bool:
    return os.path.isdir(glob.escape(path).split("[")[0].rpartition("/")[0] or "/")


def _quote_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"
