"""Column names in the parameters of the live and alert sinks, and why a column cannot be used.
Pure, except for `collect_rows`, which fetches a batch from Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.connectors.connector import require
from headrace.errors import ConnectorError
from headrace.spelling import closest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NUMBER = "__headrace_row"
_NO_KEY = re.compile(r"(array|map|struct|variant)\b")
_NOT_KEPT = re.compile(r"\binterval( year| month|$|[,>])")  # not in Arrow


def parse_names(name: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    require(name, value, (str, list, tuple), f'{name}="column" or {name}=["one", "other"]')
    found = (value,) if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]
    if not all(isinstance(one, str) and one for one in found) or len(set(found)) < len(found):
        raise ConnectorError(
            f"Invalid {name}: {value!r}. It must name one or more columns, each only once.",
            fix=f'Write {name}="column" or {name}=["one", "other"].',
            slug="bad-option",
        )
    return found


def parse_name(name: str, value: object) -> str | None:
    found = parse_names(name, value)
    if len(found) > 1:
        what = f"Invalid {name}: {value!r}. It must name one column."
        raise ConnectorError(what, slug="bad-option")
    return found[0] if found else None


def find_problem(
    used: Mapping[str, Iterable[str | None]], columns: Mapping[str, str]
) -> str | None:
    """Why these columns do not fit a sink that uses `used`, its parameters with column names: an
    unknown name, a key that cannot be compared, or a column that Arrow cannot represent."""
    for role, names in used.items():
        for name in names:
            if name and name not in columns:
                meant = closest(name, columns)
                hint = f"; did you mean {meant!r}?" if meant else "."
                shown = ", ".join(columns)
                return f"{role} refers to an unknown column, {name!r}{hint} The columns are {shown}"
    for name in used["key"]:
        if name and _NO_KEY.match(columns[name]):
            return f"the key {name!r} has type {columns[name]}; keys must be simple values"
    for name, kind in columns.items():
        if _NOT_KEPT.search(kind):
            return f"{name!r} has an unsupported type, {kind}; cast it to a string or a number"
    return None


def collect_rows(
    frame: DataFrame, most: int, *, last: bool = True, by: str | None = None
) -> tuple[pa.Table, bool]:
    """The last (or first) `most` rows in order, and whether there were more.

    `by` is a column to sort by. A `limit` without a sort would end partitions early, and a stateful
    operator does not commit its state unless all its rows are read.
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
