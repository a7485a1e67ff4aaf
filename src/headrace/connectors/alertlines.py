"""From a batch's rows to the lines that the supervisor takes: collapsed, titled, bounded. Pure.

Used by `connectors/alert.py`. Invariant: no row is too odd: what JSON or a title cannot say is said
as text, what is too long is cut. An alert must not fail the query that raises it.
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
BATCH_CHARS_MAX = 16_000_000  # of all data of a batch; titles and keys are always told
LEFT_OUT_RESOLVE_S = 3600.0
RESOLVED = "resolved"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the sink was told about its rows."""

    key: tuple[str, ...]
    title: str
    severity: str
    resolve_after_s: float | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    query_id: str
    number: int
    told_at: float


@dataclass(slots=True)
class _Same:
    """Consecutive rows of one key that say the same."""

    first: int
    key: tuple[str, ...]
    resolved: bool
    count: int
    last: Row


def columns_in(title: str) -> tuple[str, ...]:
    """Names between braces; ValueError with the reason if it is no template."""
    names = []
    for _, name, spec, conversion in string.Formatter().parse(title):
        if name is None:
            continue
        if not name or conversion or "{" in (spec or ""):
            raise ValueError("a column's name stands between the braces, and nothing else")
        names.append(name)
    return tuple(dict.fromkeys(names))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Python's own values; a column that Python cannot hold (the year 20000) as text."""
    import pyarrow as pa

    held = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            held[name] = column.to_pylist()
        except (ValueError, OverflowError):
            held[name] = column.cast(pa.string()).to_pylist()
    return [dict(zip(held, values, strict=True)) for values in zip(*held.values(), strict=True)]


def lines(rows: Sequence[Row], shape: Shape, batch: Batch) -> list[AlertRow]:
    """In the order of the rows; of rows of one key in a row that say the same, one line."""
    made, left = [], BATCH_CHARS_MAX
    for same in _collapsed(rows, shape.key):
        data = _bounded({name: plain(v) for name, v in same.last.items() if name != RESOLVED})
        left -= len(json.dumps(data))
        made.append(
            AlertRow(
                query_id=batch.query_id,
                batch=batch.number,
                row=same.first,
                key=same.key,
                title=titled(shape.title, same.last),
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


def left_out(batch: Batch, most: int) -> AlertRow:
    """An alert of its own: silence about rows that were not told would be a lie."""
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


def _collapsed(rows: Iterable[Row], key: tuple[str, ...]) -> list[_Same]:
    """Keys do not disturb each other: of A, B, A both rows of A are one."""
    found: list[_Same] = []
    current: dict[tuple[str, ...], _Same] = {}
    for number, row in enumerate(rows):
        of = tuple(text(row[name])[:KEY_CHARS_MAX] for name in key)
        is_resolved = bool(row.get(RESOLVED))
        same = current.get(of)
        if same is None or same.resolved is not is_resolved:
            same = current[of] = _Same(number, of, is_resolved, 0, row)
            found.append(same)
        same.count += 1
        same.last = row
    return found


def titled(title: str, row: Row) -> str:
    """The template with the row's values; a value that its format does not fit stands as it is."""
    parts = []
    for before, name, spec, _ in string.Formatter().parse(title):
        parts.append(before)
        if name is not None:
            parts.append(_formatted(row.get(name), spec or ""))
    whole = " ".join("".join(parts).split())
    return whole if len(whole) <= TITLE_CHARS_MAX else whole[: TITLE_CHARS_MAX - 1] + "…"


def _formatted(value: Any, spec: str) -> str:
    if spec and value is not None:
        try:
            return format(_in_utc(value) if isinstance(value, datetime) else value, spec)
        except (ValueError, TypeError, OverflowError):
            pass
    return text(value)


def text(value: Any) -> str:
    """One value as a person reads it."""
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
    # Half a surrogate pair is no text that a file could hold.
    return str(value).encode("utf-8", "replace").decode()


def plain(value: Any) -> Any:
    """As JSON can carry it, long texts cut."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {text(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    said = text(value)
    return said if len(said) <= TEXT_CHARS_MAX else said[: TEXT_CHARS_MAX - 1] + "…"


def _bounded(data: dict[str, Any]) -> dict[str, Any]:
    """The last columns go first."""
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
