"""Counts null and unknown fields in a sample of raw records. Pure; called by `quality_counts`.

Invariant: returns names of fields, never values. A value that Spark might parse counts as not null:
it is better to miss a change than to report a false one.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

UNKNOWN_MAX = 8  # unknown names per sample, the most frequent ones
UNKNOWN_NAMES_MAX = 20  # over all samples
NAME_MAX = 64
_INTS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = ("float", "double", "decimal")


@dataclass(frozen=True)
class Field:
    name: str
    kind: str  # Spark's simpleString of its type
    is_required: bool = False


@dataclass
class FieldSample:
    """`records` counts those that become rows."""

    records: int = 0
    nulls: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def counts(self, name: str, reported: set[str]) -> dict[str, int]:
        """For a `progressed` event. `reported` are the unknown fields so far; new ones are added.
        They are limited, since keys of a record may be identifiers that are always new."""
        if not self.records:
            return {}
        counts = {f"parsed.{name}": self.records}
        counts |= {f"null.{name}.{key}": number for key, number in self.nulls.items()}
        for key, number in self.unknown.most_common(UNKNOWN_MAX):
            if key in reported or len(reported) < UNKNOWN_NAMES_MAX:
                reported.add(key)
                counts[f"unknown.{name}.{key}"] = number
        return counts


def count_parse_json(records: Iterable[bytes | None], fields: tuple[Field, ...]) -> FieldSample:
    """`hr.parse_json` quarantines records that do not fit, so only an absent field is null."""
    sample = FieldSample()
    for raw in records:
        record = _object(raw)
        if record is None:
            continue
        values = {field.name: record.get(field.name) for field in fields}
        nulls = {name for name, value in values.items() if value is None}
        if all(
            not field.is_required if field.name in nulls else _fits(values[field.name], field.kind)
            for field in fields
        ):
            _add(sample, fields, nulls, record)
    return sample


def count_json(records: Iterable[bytes | None], fields: tuple[Field, ...]) -> FieldSample:
    """Spark's JSON source turns every value that does not fit into null."""
    sample = FieldSample()
    for raw in records:
        if not raw or not raw.strip() or raw.lstrip()[:1] == b"[":  # an array is many rows
            continue
        record = _object(raw) or {}
        absent = {field.name for field in fields if not _fits(record.get(field.name), field.kind)}
        _add(sample, fields, absent, record)
    return sample


def count_csv(
    records: Iterable[bytes | None], fields: tuple[Field, ...], options: Mapping[str, str]
) -> FieldSample:
    """CSV columns are matched by position."""
    sample = FieldSample()
    texts = [raw.decode("utf-8", "replace") for raw in records if raw and raw.strip()]
    separator, quote = options.get("sep", ","), options.get("quote", '"')
    if len(separator) != 1 or len(quote) != 1:
        return sample
    nulls = {"", options.get("nullvalue", "")}
    has_formats = bool({"dateformat", "timestampformat"} & options.keys())
    for row in csv.reader(texts, delimiter=separator, quotechar=quote):
        absent = set()
        for index, column in enumerate(fields):
            token = row[index] if index < len(row) else ""
            if token in nulls or not _is_readable(token.strip(), column.kind, has_formats):
                absent.add(column.name)
        _add(sample, fields, absent, {})
    return sample


def _add(
    sample: FieldSample, fields: tuple[Field, ...], absent: set[str], record: Mapping[str, Any]
) -> None:
    known = {field.name for field in fields}
    sample.records += 1
    sample.nulls.update(absent)
    sample.unknown.update(
        name for name in record if name not in known and len(name) <= NAME_MAX and _is_plain(name)
    )


def _is_plain(name: str) -> bool:
    """The name is shown to people: no invisible characters, and nothing that ends its quotes."""
    return name.isprintable() and "`" not in name and bool(name.strip())


def _object(raw: bytes | None) -> dict[str, Any] | None:
    try:
        value = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _fits(value: Any, kind: str) -> bool:
    if value is None:
        return False
    if kind in _INTS:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind.startswith(_NUMBERS):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number or isinstance(value, str)  # "NaN", and decimals in quotes
    if kind == "boolean":
        return isinstance(value, bool)
    if kind.startswith("struct") or kind.startswith("map"):
        return isinstance(value, dict)
    if kind.startswith("array"):
        return isinstance(value, list | dict)
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return isinstance(value, int) or (isinstance(value, str) and bool(value))
    return True


def _is_readable(token: str, kind: str, has_formats: bool) -> bool:
    """Whether Spark's CSV reader can parse the token."""
    if kind in _INTS:
        return token.lstrip("+-").isdigit()
    if kind.startswith(_NUMBERS):
        return any(char.isdigit() for char in token) or token in ("NaN", "Inf", "-Inf")
    if kind == "boolean":
        return token.lower() in ("true", "false")
    if kind in ("timestamp", "timestamp_ntz", "date") and not has_formats:
        return token[:4].isdigit()
    return True
