"""JSON that browsers can parse: NaN and infinity become null."""

from __future__ import annotations

import json
from typing import Any


def encode(body: Any) -> bytes:
    """ASCII, so that lone surrogates do no harm."""
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
