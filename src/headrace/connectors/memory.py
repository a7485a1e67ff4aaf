"""A table in the driver's memory, named like the query: for tests and notebooks only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.connectors.connector import Connector, started

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter


@dataclass(frozen=True)
class Memory(Connector):
    kind: ClassVar[str] = "memory"
    is_sink: ClassVar[bool] = True
    needs_checkpoint: ClassVar[bool] = False
    keeps_checkpoint: ClassVar[bool] = False  # Spark: a table in memory is empty after a restart
    can_real_time: ClassVar[bool] = True
    delivery: ClassVar[str] = "at-least-once"
    delivery_why: ClassVar[str] = "the table is gone with the driver, and the query starts anew"
    for_production: ClassVar[bool] = False
    not_for_production: ClassVar[str] = (
        "a table in memory is not idempotent, grows without end and dies with the driver"
    )

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        return started(writer, query=query, mode=mode, checkpoint=None).format("memory")


def memory() -> Memory:
    return Memory()
