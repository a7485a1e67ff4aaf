"""Sinks that call a user's function: `hr.each_row(…)` for each row, on the workers, and
`hr.each_batch(…)` for each batch, in the driver. After a failure both may get rows again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.connectors.connector import Capabilities, Connector
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter


@dataclass(frozen=True)
class _UserFunction(Connector):
    function: Any

    def user_code(self) -> CodeType | None:
        return code_of(self.function)

    def fields(self) -> dict[str, Any]:
        return {"kind": self.kind, "function": describe_function(self.function)}


@dataclass(frozen=True)
class EachRow(_UserFunction):
    """A function of one row, or an object with `process(row)` and optionally `open(partition,
    epoch)` and `close(error)`."""

    kind: ClassVar[str] = "each_row"
    capabilities: ClassVar[Capabilities] = Capabilities(
        is_sink=True,
        needs_checkpoint=False,
        delivery_why="after a failure, the function gets the rows of the batch again",
    )

    def configure(self, writer: DataStreamWriter, mode: str) -> DataStreamWriter:
        return writer.foreach(self.function)


@dataclass(frozen=True)
class EachBatch(_UserFunction):
    """`function(frame, batch_id)`: a repeated batch has the same id and the same rows."""

    kind: ClassVar[str] = "each_batch"
    capabilities: ClassVar[Capabilities] = Capabilities(
        is_sink=True,
        needs_checkpoint=False,
        delivery="idempotent-if",
        delivery_why="exactly once if the function is idempotent for each batch_id",
    )

    def configure(self, writer: DataStreamWriter, mode: str) -> DataStreamWriter:
        return writer.foreachBatch(self.function)


def each_row(function: Any) -> EachRow:
    target = function() if inspect.isclass(function) else function
    if hasattr(target, "process"):
        _check_signature(target.process, 1, "process(row)", "each_row")
        for name, count, shown in (
            ("open", 2, "open(partition, epoch)"),
            ("close", 1, "close(error)"),
        ):
            if hasattr(target, name):
                _check_signature(getattr(target, name), count, shown, "each_row")
    else:
        _check_signature(target, 1, "function(row)", "each_row")
    return EachRow(target)


def each_batch(function: Callable[[Any, int], Any]) -> EachBatch:
    _check_signature(function, 2, "function(frame, batch_id)", "each_batch")
    return EachBatch(function)


def describe_function(function: Any) -> str:
    """Name and location: `upload at pipelines/orders.py:12`. The path is Python's."""
    code = code_of(function)
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name


def code_of(function: Any) -> CodeType | None:
    """The code of a function, or of an object's `process`; None for built-ins."""
    inner = getattr(function, "__func__", function)
    code = getattr(inner, "__code__", None) or getattr(
        getattr(type(function), "process", None), "__code__", None
    )
    return code if isinstance(code, CodeType) else None


def _check_signature(function: object, count: int, shown: str, where: str) -> None:
    if not callable(function):
        raise ConnectorError(
            f"hr.{where} needs a function, not {function!r}.",
            fix=f"Pass a function that can be called as {shown}"
            + (", or an object with process(row)." if shown == "function(row)" else "."),
            slug="bad-function",
        )
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as exc:
        raise ConnectorError(
            f"{describe_function(function)} cannot be called as {shown}: {exc}.",
            fix=f"Define it as {shown}.",
            slug="bad-function",
        ) from exc
    except ValueError:  # some built-ins have no signature
        return
