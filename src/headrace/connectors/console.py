"""Rows printed by the driver, to watch a query while writing it; `headrace logs` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.connectors.connector import Capabilities, Connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter


@dataclass(frozen=True)
class Console(Connector):
    rows: int = 20
    truncate: bool = True

    kind: ClassVar[str] = "console"
    capabilities: ClassVar[Capabilities] = Capabilities(
        is_sink=True,
        can_run_in_real_time=True,
        needs_checkpoint=False,
        delivery_why="a batch that failed halfway is printed again",
        not_for_production="the console is not idempotent and stores nothing: it only prints rows",
    )

    def configure(self, writer: DataStreamWriter, mode: str) -> DataStreamWriter:
        writer = writer.format("console").option("numRows", self.rows)
        return writer.option("truncate", self.truncate)

    def write(self, frame: DataFrame) -> None:
        frame.show(self.rows, self.truncate)


def console(rows: int = 20, *, truncate: bool = True) -> Console:
    return Console(rows, truncate)
