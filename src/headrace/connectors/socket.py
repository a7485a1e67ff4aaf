"""Lines of text from a TCP port, to try a query with `nc -lk PORT`. Not for production."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.connectors.connector import (
    Capabilities,
    Connector,
    plain_options,
    require,
    require_int,
)
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Socket(Connector):
    """`timestamp` adds a column with the time of arrival."""

    host: str
    port: int
    timestamp: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "socket"
    capabilities: ClassVar[Capabilities] = Capabilities(
        is_source=True,
        not_for_production="a socket cannot be replayed, so a failure loses rows",
    )

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        if not streaming:
            raise ConnectorError(
                f"The socket {self.host}:{self.port} does not support batch reads.",
                why="A socket keeps no past data.",
                fix="Read files instead, or run the query as a stream.",
                slug="no-batch-read",
            )
        reader = spark.readStream.format("socket").options(**self.options)
        reader = reader.option("host", self.host).option("port", str(self.port))
        return reader.option("includeTimestamp", str(self.timestamp).lower()).load()


def socket(
    host: str,
    port: int,
    *,
    timestamp: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Socket:
    require("host", host, str, 'host="localhost"')
    require_int("port", port, 65535)
    return Socket(host, port, timestamp, plain_options(options))
