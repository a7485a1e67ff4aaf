"""The result of an SQL query: rows, and how recent the data is."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class AsOf:
    """A table that was read. `at` is when its newest rows were committed."""

    table: str
    at: float | None = None
    batch: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool  # there are more rows
    took_s: float
    tables: tuple[AsOf, ...] = ()

    def to_json(self) -> dict[str, Any]:
        described = zip(self.columns, self.types, strict=True)
        return {
            "columns": [{"name": name, "type": kind} for name, kind in described],
            "rows": [[plain(value) for value in row] for row in self.rows],
            "is_cut": self.is_cut,
            "took_ms": round(self.took_s * 1000),
            "tables": [
                {
                    "name": table.table,
                    "as_of": plain(datetime.fromtimestamp(table.at, UTC)) if table.at else None,
                    "batch": table.batch,
                    "files": table.files,
                }
                for table in self.tables
            ],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> QueryResult:
        """The reverse of `to_json`, with timestamps as datetime."""
        types = tuple(column["type"] for column in body["columns"])
        return cls(
            columns=tuple(column["name"] for column in body["columns"]),
            types=types,
            rows=tuple(tuple(map(_decode_value, types, row)) for row in body["rows"]),
            is_cut=body["is_cut"],
            took_s=body["took_ms"] / 1000,
            tables=tuple(
                AsOf(table["name"], _seconds(table["as_of"]), table["batch"], table["files"])
                for table in body["tables"]
            ),
        )


def _decode_value(kind: str, value: Any) -> Any:
    is_timestamp = kind.startswith("TIMESTAMP") and isinstance(value, str)
    return datetime.fromisoformat(value) if is_timestamp else value


def _seconds(at: str | None) -> float | None:
    return datetime.fromisoformat(at).timestamp() if at else None


def plain(value: Any) -> Any:
    """For JSON: times as ISO text, timestamps in UTC; bytes as base64."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) if value.tzinfo is None else value).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal | timedelta | UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return value
