"""Suggestions for misspelt names. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that the user probably meant, if one is close enough."""
    by_lower = {a.lower(): a for a in allowed}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def suggest(name: str, allowed: Iterable[str], otherwise: str) -> str:
    """The fix of an error about an unknown name."""
    meant = closest(name, allowed)
    return f"Did you mean {meant!r}?" if meant else otherwise
