"""Sinks of the user's own: `hr.each_row(…)` calls it for every row, `hr.each_batch(…)` for a batch.

A row's function runs on the workers; a batch's function runs in the driver and may do anything a
DataFrame can. Both may see the same rows again after a failure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.connectors.connector import Connector, started
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter


@dataclass(frozen=True)
class EachRow(Connector):
    """A function of one row, or an object with `process(row)` and, if wanted, `open(partition,
    epoch)` and `close(error)`."""

    function: Any

    kind: ClassVar[str] = "each_row"
    is_sink: ClassVar[bool] = True
    needs_checkpoint: ClassVar[bool] = False
    delivery: ClassVar[str] = "at-least-once"
    delivery_why: ClassVar[str] = "the function sees the rows of a failed batch again"

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        writer = started(writer, query=query, mode=mode, checkpoint=checkpoint)
        return writer.foreach(self.function)

    def fields(self) -> dict[str, Any]:
        return {"kind": self.kind, "function": described(self.function)}


@dataclass(frozen=True)
class EachBatch(Connector):
    """`function(frame, batch_id)`: a batch seen again has the same id and the same rows."""

    function: Callable[[Any, int], Any]

    kind: ClassVar[str] = "each_batch"
    is_sink: ClassVar[bool] = True
    needs_checkpoint: ClassVar[bool] = False
    delivery: ClassVar[str] = "idempotent-if"
    delivery_why: ClassVar[str] = (
        "exactly once if the function does nothing twice for the same batch_id"
    )

    def attach(
        self, writer: DataStreamWriter, *, query: str, mode: str, checkpoint: str | None
    ) -> DataStreamWriter:
        writer = started(writer, query=query, mode=mode, checkpoint=checkpoint)
        return writer.foreachBatch(self.function)

    def fields(self) -> dict[str, Any]:
        return {"kind": self.kind, "function": described(self.function)}


def each_row(function: Any) -> EachRow:
    target = function() if inspect.isclass(function) else function
    if hasattr(target, "process"):
        _takes(target.process, 1, "process(row)", "each_row")
        for name, count, shown in (
            ("open", 2, "open(partition, epoch)"),
            ("close", 1, "close(error)"),
        ):
            if hasattr(target, name):
                _takes(getattr(target, name), count, shown, "each_row")
    else:
        _takes(target, 1, "function(row)", "each_row")
    return EachRow(target)


def each_batch(function: Callable[[Any, int], Any]) -> EachBatch:
    _takes(function, 2, "function(frame, batch_id)", "each_batch")
    return EachBatch(function)


def described(function: Any) -> str:
    """Name and place: `upload at pipelines/orders.py:12`. The path is as Python knows it."""
    code = code_of(function)
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name


def code_of(function: Any) -> CodeType | None:
    """Of a function, or of an object's `process`; built-ins have none."""
    inner = getattr(function, "__func__", function)
    code = getattr(inner, "__code__", None) or getattr(
        getattr(type(function), "process", None), "__code__", None
    )
    return code if isinstance(code, CodeType) else None


def _takes(function: object, count: int, shown: str, where: str) -> None:
    fix = f"hr.{where} takes {shown}" + (
        ", or an object with process(row)." if where == "each_row" else "."
    )
    if not callable(function):
        raise ConnectorError(
            f"hr.{where}({function!r}) is not a function.", fix=fix, slug="bad-function"
        )
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as exc:
        raise ConnectorError(
            f"{described(function)} cannot be called as {shown}: {exc}.",
            fix=fix,
            slug="bad-function",
        ) from exc
    except ValueError:  # a built-in without a signature, such as print
        return
