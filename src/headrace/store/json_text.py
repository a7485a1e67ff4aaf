"""JSON in the tables: compact and bounded. Reading it never fails: a text that a flipped bit has
damaged is read as an empty object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

CHARS_MAX = 64 * 1024


def dump(body: Mapping[str, Any]) -> str:
    """Pure ASCII, so that any text (even half a surrogate pair) is read back unchanged."""
    return json.dumps(body, separators=(",", ":"), default=str)


def dump_bounded(body: Mapping[str, Any]) -> str:
    """Above the limit the largest members are removed; "trimmed" names them."""
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
