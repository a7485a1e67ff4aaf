"""Values as text, shortened and escaped for HTML and SVG. Pure.

Invariant: the user's data and column names reach a page only through `safe`.
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
# Characters that XML does not allow, lone surrogates, and marks that change the text direction.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)


@dataclass(frozen=True, slots=True)
class Rows:
    """`kinds` are Spark's types. `is_cut`: there are more rows than these."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...] = ()
    is_cut: bool = False


def text_of(value: Any) -> str:
    """As `DataFrame.show` prints it, but shortened."""
    return shorten(_plain(value))


def shorten(text: str, most: int = CELL_CHARS_MAX) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text):,} characters)"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def safe(text: str) -> str:
    """For HTML and XML, as content and as an attribute."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", text), quote=True)


def line(text: str) -> str:
    """For a terminal: one line, without control characters."""
    return _UNPRINTABLE.sub("\ufffd", re.sub(r"[\r\n\t]+", " ", text))


def number(value: Any) -> float | None:
    """A finite number to draw, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


def is_number_kind(kind: str) -> bool:
    plain = ("tinyint", "smallint", "int", "bigint", "float", "double")
    return kind in plain or kind.startswith("decimal")


def is_time_kind(kind: str) -> bool:
    return kind in ("date", "timestamp", "timestamp_ntz")


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):  # in the session's time zone, as Spark shows it
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
