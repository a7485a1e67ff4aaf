"""Converts the rows of a batch to alert rows: merged, with titles, limited in size. Pure.

Used by `alert` and `alert_topic`. Invariant: every row can be converted, because an alert must not
fail the query that raises it: values that JSON cannot represent become text, long ones are cut.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.model.alerts import AlertRow

if TYPE_CHECKING:
    import pyarrow as pa

TITLE_CHARS_MAX = 500
KEY_CHARS_MAX = 500
TEXT_CHARS_MAX = 1_000  # of one value
DATA_CHARS_MAX = 8_000  # of one row
BATCH_CHARS_MAX = 16_000_000  # of all data of a batch; titles and keys are always kept
LEFT_OUT_RESOLVE_S = 3600.0
RESOLVED = "resolved"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AlertTemplate:
    key: tuple[str, ...]
    title: str
    severity: str
    resolve_after_s: float | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class AlertBatch:
    query_id: str
    number: int
    told_at: float


@dataclass(slots=True)
class _Collapsed:
    """Consecutive rows of a key that all open it, or all resolve it."""

    first: int
    key: tuple[str, ...]
    resolved: bool
    count: int
    last: Row


def columns_in(title: str) -> tuple[str, ...]:
    """Names in braces; ValueError with the reason if the template is invalid."""
    names = []
    for _, name, spec, conversion in string.Formatter().parse(title):
        if name is None:
            continue
        if not name or conversion or "{" in (spec or ""):
            raise ValueError("Braces may contain only a column name and a format")
        names.append(name)
    return tuple(dict.fromkeys(names))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Python values; a column that Python cannot represent (the year 20000) becomes text."""
    import pyarrow as pa

    held = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            held[name] = column.to_pylist()
        except (ValueError, OverflowError):
            held[name] = column.cast(pa.string()).to_pylist()
    return [dict(zip(held, values, strict=True)) for values in zip(*held.values(), strict=True)]


def lines(rows: Sequence[Row], shape: AlertTemplate, batch: AlertBatch) -> list[AlertRow]:
    """In the order of the rows; consecutive rows of a key with the same effect become one."""
    made, left = [], BATCH_CHARS_MAX
    for same in _collapse(rows, shape.key):
        data = _trim_data({name: plain(v) for name, v in same.last.items() if name != RESOLVED})
        left -= len(json.dumps(data))
        made.append(
            AlertRow(
                query_id=batch.query_id,
                batch=batch.number,
                row=same.first,
                key=same.key,
                title=format_title(shape.title, same.last),
                severity=shape.severity,
                at=_seconds(same.last.get(shape.at or ""), batch.told_at),
                told_at=batch.told_at,
                resolved=same.resolved,
                count=same.count,
                resolve_after_s=shape.resolve_after_s,
                data=data if left > 0 else {"trimmed": True},
            )
        )
    return made


def truncation_alert(batch: AlertBatch, most: int) -> AlertRow:
    return AlertRow(
        query_id=batch.query_id,
        batch=batch.number,
        row=most,
        key=("rows-left-out",),
        title=f"More than {most:,} alert rows in batch {batch.number}: the oldest were left out",
        severity="error",
        at=batch.told_at,
        told_at=batch.told_at,
        resolve_after_s=LEFT_OUT_RESOLVE_S,
        left_out=True,
    )


def _collapse(rows: Iterable[Row], key: tuple[str, ...]) -> list[_Collapsed]:
    """Keys are independent: in A, B, A both rows of A become one."""
    found: list[_Collapsed] = []
    current: dict[tuple[str, ...], _Collapsed] = {}
    for number, row in enumerate(rows):
        of = tuple(text(row[name])[:KEY_CHARS_MAX] for name in key)
        is_resolved = bool(row.get(RESOLVED))
        same = current.get(of)
        if same is None or same.resolved is not is_resolved:
            same = current[of] = _Collapsed(number, of, is_resolved, 0, row)
            found.append(same)
        same.count += 1
        same.last = row
    return found


def format_title(title: str, row: Row) -> str:
    """Fill in the row's values; a value that does not match its format is shown without it."""
    parts = []
    for before, name, spec, _ in string.Formatter().parse(title):
        parts.append(before)
        if name is not None:
            parts.append(_format_value(row.get(name), spec or ""))
    return _cut(" ".join("".join(parts).split()), TITLE_CHARS_MAX)


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def _format_value(value: Any, spec: str) -> str:
    if spec and value is not None:
        try:
            return format(_in_utc(value) if isinstance(value, datetime) else value, spec)
        except (ValueError, TypeError, OverflowError):
            pass
    return text(value)


def text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        zone = "Z" if value.tzinfo else ""
        return _in_utc(value).replace(tzinfo=None).isoformat(sep=" ") + zone
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict | list | tuple):
        return json.dumps(plain(value))
    # A lone surrogate cannot be encoded in a file.
    return str(value).encode("utf-8", "replace").decode()


def plain(value: Any) -> Any:
    """A value that JSON can represent; long text is cut."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {text(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return _cut(text(value), TEXT_CHARS_MAX)


def _trim_data(data: dict[str, Any]) -> dict[str, Any]:
    names = list(data)
    while len(json.dumps(data)) > DATA_CHARS_MAX and names:
        del data[names.pop()]
        data["trimmed"] = True
    return data


def _in_utc(value: datetime) -> datetime:
    return value.astimezone(UTC) if value.tzinfo else value


def _seconds(value: Any, otherwise: float) -> float:
    if not isinstance(value, datetime):
        return otherwise
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
