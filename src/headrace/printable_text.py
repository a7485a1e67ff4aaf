"""Makes foreign text safe to print on a terminal. Pure."""

from __future__ import annotations

import re

# Colours, cursor moves and window titles; then all other control characters except tab and line
# end, and the marks that change the direction of text.
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|\x1b[]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text without control sequences, which could overwrite earlier lines."""
    return _CONTROL.sub("\ufffd", _ESCAPE.sub("", text))
