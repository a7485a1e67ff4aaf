"""JSON as a browser reads it: what is no number there (NaN, infinity) becomes null."""

from __future__ import annotations

import json
from typing import Any


def encoded(body: Any) -> bytes:
    """ASCII: odd characters stay what they are, and half of one breaks nothing."""
    try:
        text = json.dumps(body, allow_nan=False, separators=(",", ":"), default=str)
    except ValueError:
        text = json.dumps(_finite(body), allow_nan=False, separators=(",", ":"), default=str)
    return text.encode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    is_odd = isinstance(value, float) and (value != value or value in (float("inf"), -float("inf")))
    return None if is_odd else value
