"""JSON as it stands in our tables: compact, bounded, and read back without ever failing.

A bit may flip inside a text without SQLite noticing; a reader then gets an empty object for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

CHARS_MAX = 64 * 1024
_INT_MAX = 2**63 - 1


def dump(body: Mapping[str, Any]) -> str:
    """Pure ASCII, so that any text (also half a surrogate pair) comes back as it was."""
    return json.dumps(body, separators=(",", ":"), default=str)


def dump_bounded(body: Mapping[str, Any]) -> str:
    """Above the limit the largest members go first; "trimmed" names them."""
    text = dump(body)
    if len(text) <= CHARS_MAX:
        return text
    sizes = sorted(body, key=lambda name: len(json.dumps(body[name], default=str)), reverse=True)
    kept, trimmed = dict(body), []
    for name in sizes:
        del kept[name]
        trimmed.append(str(name)[:100])
        text = dump({**kept, "trimmed": trimmed[:100]})
        if len(text) <= CHARS_MAX:
            return text
    return dump({"trimmed": trimmed[:100]})


def load(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def whole(value: Any) -> int | None:
    """A whole number that SQLite can hold, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    number = int(value)
    return number if -_INT_MAX <= number <= _INT_MAX else None


def real(value: Any) -> float | None:
    """A finite number, or None: Spark says NaN and Infinity where there is no rate."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
