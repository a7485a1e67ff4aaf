"""A table in the driver's memory, named like the query: for tests and notebooks only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.connectors.connector import Capabilities, Connector, configure_writer

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter


@dataclass(frozen=True)
class Memory(Connector):
    kind: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities(
        is_sink=True,
        can_run_in_real_time=True,
        needs_checkpoint=False,
        can_resume=False,
        delivery_why="the table disappears with the driver, and the query starts from scratch",
        not_for_production="a table in memory is not idempotent, grows without limit and "
        "disappears with the driver",
    )

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        return configure_writer(writer, query=query, mode=mode, checkpoint=None).format("memory")


def memory() -> Memory:
    return Memory()
