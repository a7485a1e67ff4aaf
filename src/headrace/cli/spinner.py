"""A spinner on stderr; nothing if stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def show(text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Yields a function that changes the text."""
    if quiet or not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(text)) as status:
        yield lambda new: status.update(escape(new))
