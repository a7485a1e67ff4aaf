"""Rows printed by the driver: to look at a query while writing it. `headrace logs` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.connectors.connector import Connector, started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import DataStreamWriter


@dataclass(frozen=True)
class Console(Connector):
    rows: int = 20
    truncate: bool = True

    kind: ClassVar[str] = "console"
    is_sink: ClassVar[bool] = True
    needs_checkpoint: ClassVar[bool] = False
    can_real_time: ClassVar[bool] = True
    delivery: ClassVar[str] = "at-least-once"
    delivery_why: ClassVar[str] = "a batch that failed half-way is printed again"
    for_production: ClassVar[bool] = False
    not_for_production: ClassVar[str] = (
        "the console is not idempotent and keeps nothing: rows are only printed"
    )

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        writer = started(writer, query=query, mode=mode, checkpoint=checkpoint).format("console")
        return writer.option("numRows", self.rows).option("truncate", self.truncate)

    def write(self, frame: DataFrame) -> None:
        frame.show(self.rows, self.truncate)


def console(rows: int = 20, *, truncate: bool = True) -> Console:
    return Console(rows, truncate)
