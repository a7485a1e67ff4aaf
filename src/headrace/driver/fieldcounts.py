"""What a sample of records says about the fields of a schema: which are null, which are unknown.

Called by `counts`. Pure. Invariant: names of fields come out, never values. Where it is not sure
what Spark makes of a value, it takes it as not null: a change goes unseen rather than be invented.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

UNKNOWN_MAX = 8  # names of one sample: those that most records have
UNKNOWN_NAMES_MAX = 20  # of all samples
NAME_MAX = 64
_INTS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = ("float", "double", "decimal")


@dataclass(frozen=True)
class Field:
    name: str
    kind: str  # as Spark's simpleString says it
    is_required: bool = False


@dataclass
class Sample:
    """`records` are those that become rows."""

    records: int = 0
    nulls: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def counts(self, name: str, told: set[str]) -> dict[str, int]:
        """As a `progressed` event carries them. `told` are unknown names so far: records whose keys
        are identifiers have a new one every time."""
        if not self.records:
            return {}
        found = {f"parsed.{name}": self.records}
        found |= {f"null.{name}.{one}": n for one, n in self.nulls.items()}
        for one, times in self.unknown.most_common(UNKNOWN_MAX):
            if one in told or len(told) < UNKNOWN_NAMES_MAX:
                told.add(one)
                found[f"unknown.{name}.{one}"] = times
        return found


def of_parse_json(records: Iterable[bytes | None], fields: tuple[Field, ...]) -> Sample:
    """`hr.parse_json` sets a record aside that does not fit, so only what is absent is null."""
    sample = Sample()
    for raw in records:
        record = _object(raw)
        if record is None:
            continue
        given = {one.name: record.get(one.name) for one in fields}
        fits = all(
            not one.is_required if given[one.name] is None else _fits(given[one.name], one.kind)
            for one in fields
        )
        if fits:
            _add(sample, fields, {name for name, value in given.items() if value is None}, record)
    return sample


def of_json(records: Iterable[bytes | None], fields: tuple[Field, ...]) -> Sample:
    """Spark's JSON source makes null of whatever does not fit."""
    sample = Sample()
    for raw in records:
        if not raw or not raw.strip() or raw.lstrip()[:1] == b"[":  # an array is many rows
            continue
        record = _object(raw) or {}
        absent = {one.name for one in fields if not _fits(record.get(one.name), one.kind)}
        _add(sample, fields, absent, record)
    return sample


def of_csv(
    records: Iterable[bytes | None], fields: tuple[Field, ...], options: Mapping[str, str]
) -> Sample:
    """Columns go by their place."""
    sample = Sample()
    texts = [raw.decode("utf-8", "replace") for raw in records if raw and raw.strip()]
    separator, quote = options.get("sep", ","), options.get("quote", '"')
    if len(separator) != 1 or len(quote) != 1:
        return sample
    nothing = {"", options.get("nullvalue", "")}
    has_formats = bool({"dateformat", "timestampformat"} & options.keys())
    for row in csv.reader(texts, delimiter=separator, quotechar=quote):
        absent = set()
        for place, one in enumerate(fields):
            token = row[place] if place < len(row) else ""
            if token in nothing or not _reads(token.strip(), one.kind, has_formats):
                absent.add(one.name)
        _add(sample, fields, absent, {})
    return sample


def _add(
    sample: Sample, fields: tuple[Field, ...], absent: set[str], record: Mapping[str, Any]
) -> None:
    known = {one.name for one in fields}
    sample.records += 1
    sample.nulls.update(absent)
    sample.unknown.update(
        name for name in record if name not in known and len(name) <= NAME_MAX and _is_plain(name)
    )


def _is_plain(name: str) -> bool:
    """It is shown to people: nothing that would hide in a line, or break out of its quotes."""
    return name.isprintable() and "`" not in name and bool(name.strip())


def _object(raw: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


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


def _reads(token: str, kind: str, has_formats: bool) -> bool:
    """Whether Spark's CSV reader makes something of it."""
    if kind in _INTS:
        return token.lstrip("+-").isdigit()
    if kind.startswith(_NUMBERS):
        return any(sign.isdigit() for sign in token) or token in ("NaN", "Inf", "-Inf")
    if kind == "boolean":
        return token.lower() in ("true", "false")
    if kind in ("timestamp", "timestamp_ntz", "date") and not has_formats:
        return token[:4].isdigit()
    return True
