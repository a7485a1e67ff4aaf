"""Generated rows at a steady rate (`timestamp`, `value`), to try a query without input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.connectors.connector import Capabilities, Connector, plain_options, require_int
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Rate(Connector):
    rows_per_second: int = 1
    options: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "rate"
    capabilities: ClassVar[Capabilities] = Capabilities(
        is_source=True, is_replayable=True, not_for_production="it only generates test rows"
    )

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        if not streaming:
            raise ConnectorError(
                "The rate source does not support batch reads.",
                why="It generates rows as time passes and has no past data.",
                fix="Read files instead, or run the query as a stream.",
                slug="no-batch-read",
            )
        reader = spark.readStream.format("rate").options(**self.options)
        return reader.option("rowsPerSecond", str(self.rows_per_second)).load()


def rate(rows_per_second: int = 1, *, options: Mapping[str, Any] | None = None) -> Rate:
    require_int("rows_per_second", rows_per_second)
    return Rate(rows_per_second, plain_options(options))
