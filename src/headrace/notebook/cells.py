"""Values as text, shortened, and safe to stand in HTML and SVG. Pure.

Invariant: nothing of the user's data or column names reaches a page except through `safe`.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

CELL_CHARS_MAX = 300
BYTES_SHOWN = 16
# What XML cannot hold, half of a pair, and what turns the rest of a line around.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)


@dataclass(frozen=True, slots=True)
class Rows:
    """What is shown: `kinds` are Spark's types; `is_cut` if there were more rows than these."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...] = ()
    is_cut: bool = False


def text_of(value: Any) -> str:
    """As `DataFrame.show` would say it, in one line and not too long."""
    return shortened(_plain(value))


def shortened(text: str, most: int = CELL_CHARS_MAX) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters)"


def safe(text: str) -> str:
    """For HTML and XML, as content and in quotes."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", text), quote=True)


def line(text: str) -> str:
    """For a terminal: nothing that moves its cursor."""
    return _UNPRINTABLE.sub("\ufffd", re.sub(r"[\r\n\t]+", " ", text))


def number(value: Any) -> float | None:
    """A number to draw; None for what is none, also for NaN and infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def is_number_kind(kind: str) -> bool:
    return kind in ("tinyint", "smallint", "int", "bigint", "float", "double") or kind.startswith(
        "decimal"
    )


def is_time_kind(kind: str) -> bool:
    return kind in ("date", "timestamp", "timestamp_ntz")


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):  # of the session's time zone, as Spark itself shows it
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        more = f"… ({len(value):,} bytes)" if len(value) > BYTES_SHOWN else ""
        return value[:BYTES_SHOWN].hex(" ").upper() + more
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_plain(k)}: {_plain(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return str(value)
