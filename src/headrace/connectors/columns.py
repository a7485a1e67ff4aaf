"""Columns that a sink is told by name: how they are written down, and why they will not do.

Used by the live and the alert sink. Pure, but for `bounded`, which takes a batch out of Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.connectors.connector import require
from headrace.errors import ConnectorError
from headrace.words import near

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NUMBER = "__headrace_row"
_NO_KEY = re.compile(r"(array|map|struct|variant)\b")
_NOT_KEPT = re.compile(r"\binterval( year| month|$|[,>])")  # Arrow has none of these


def listed(name: str, value: object) -> tuple[str, ...]:
    """One column or several, as the user may write both."""
    require(name, value, (str, list, tuple), f'{name}="column" or {name}=["one", "other"]')
    found = (value,) if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]
    if not all(isinstance(one, str) and one for one in found) or len(set(found)) < len(found):
        raise ConnectorError(
            f"{name}={value!r} has to name columns, each once.",
            fix=f'Write {name}="column" or {name}=["one", "other"].',
            slug="bad-option",
        )
    return found


def unknown(role: str, names: Iterable[str], columns: Mapping[str, str]) -> str | None:
    """Words for the first name that is no column, with the near miss."""
    for name in names:
        if name not in columns:
            meant = near(name, columns)
            hint = f"did you mean {meant!r}? " if meant else ""
            shown = ", ".join(columns)
            return f"{role} names {name!r}, which is no column; {hint}The columns are {shown}"
    return None


def unfit(key: Iterable[str], columns: Mapping[str, str]) -> str | None:
    """Words for a key that cannot be compared, or a column that cannot leave Spark."""
    for name in key:
        if _NO_KEY.match(columns[name]):
            return f"the key {name!r} is of type {columns[name]}; a key is one plain value"
    for name, kind in columns.items():
        if _NOT_KEPT.search(kind):
            return f"{name!r} is of type {kind}, which cannot be kept; cast it to text or a number"
    return None


def bounded(
    frame: DataFrame, most: int, *, last: bool = True, by: str | None = None
) -> tuple[pa.Table, bool]:
    """The last (or first) `most` rows in their order, and whether there were more.

    `by` is a column that orders them. Never by `limit` alone: it ends a partition early, and an
    operator with state whose rows are not all taken does not commit that state.
    """
    import pyarrow as pa
    from pyspark.sql import functions as F

    number = F.col(_NUMBER)
    order = [number.desc() if last else number.asc()]
    if by is not None:
        column = F.col("`" + by.replace("`", "``") + "`")
        order.insert(0, column.desc_nulls_last() if last else column.asc_nulls_first())
    numbered = frame.withColumn(_NUMBER, F.monotonically_increasing_id())
    table: pa.Table = numbered.orderBy(*order).limit(most + 1).drop(_NUMBER).toArrow()
    is_more = table.num_rows > most
    table = table.slice(0, most)
    if last:
        table = table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))
    return table, is_more
