"""Lines of text from a TCP port: for a first try with `nc -lk PORT`. Never for production."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.connectors.connector import Connector, plain_options, require
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Socket(Connector):
    """`timestamp` adds a column with the time of arrival."""

    host: str
    port: int
    timestamp: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "socket"
    is_source: ClassVar[bool] = True
    for_production: ClassVar[bool] = False
    not_for_production: ClassVar[str] = (
        "a socket cannot be replayed: after a failure its rows are lost"
    )

    def read(
        self, spark: SparkSession, *, streaming: bool = True, schema: str | None = None
    ) -> DataFrame:
        if not streaming:
            raise ConnectorError(
                f"The socket {self.host}:{self.port} cannot be read as a batch.",
                why="What has passed through it is gone.",
                fix="Read files instead, or run it as a stream.",
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
    if type(port) is not int or not 0 < port < 65536:
        raise ConnectorError(
            f"port={port!r} has to be a number from 1 to 65535.", slug="bad-option"
        )
    return Socket(host, port, timestamp, plain_options(options))
