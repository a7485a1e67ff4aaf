"""Made-up rows at a steady rate (`timestamp`, `value`): to try a query without any input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.connectors.connector import Connector, plain_options
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Rate(Connector):
    rows_per_second: int = 1
    options: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "rate"
    is_source: ClassVar[bool] = True
    is_replayable: ClassVar[bool] = True
    for_production: ClassVar[bool] = False
    not_for_production: ClassVar[str] = "its rows are made up"

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        if not streaming:
            raise ConnectorError(
                "The rate source cannot be read as a batch.",
                why="It has no past: its rows are made up as time goes by.",
                fix="Read files instead, or run it as a stream.",
                slug="no-batch-read",
            )
        reader = spark.readStream.format("rate").options(**self.options)
        return reader.option("rowsPerSecond", str(self.rows_per_second)).load()


def rate(rows_per_second: int = 1, *, options: Mapping[str, Any] | None = None) -> Rate:
    if type(rows_per_second) is not int or rows_per_second < 1:
        raise ConnectorError(
            f"rows_per_second={rows_per_second!r} has to be a whole number from 1.",
            slug="bad-option",
        )
    return Rate(rows_per_second, plain_options(options))
