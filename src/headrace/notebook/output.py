"""Where a display is drawn: outputs of a notebook cell, updated in place, or lines in a terminal.

The parts from top to bottom: head, button, body, foot.
"""

from __future__ import annotations

import itertools
import sys
import uuid
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from headrace.notebook.renderer import Part

STOP_HINT = "To stop, interrupt the kernel or call .stop() on the returned display."
_EMPTY = Part("", "")
_opened = itertools.count(1)


class Cell:
    """Outputs of the running cell. Only changes are sent."""

    def __init__(self) -> None:
        self._key = f"headrace-{uuid.uuid4().hex[:12]}"
        self._shown: dict[str, Part] = {}
        self._button: Any = None
        self.has_button = False

    def open(self, parts: Sequence[str], on_stop: Callable[[], None] | None) -> None:
        """Creates the empty parts in the current cell. Any thread can update them later."""
        from IPython.display import display

        self._button = _button(on_stop) if on_stop is not None else None
        self.has_button = self._button is not None
        for name in parts:
            self._shown[name] = _EMPTY
            display(_bundle(_EMPTY), raw=True, display_id=self._id(name))  # type: ignore[no-untyped-call]
            if name == "head" and self._button is not None:
                display(self._button, display_id=self._id("button"))  # type: ignore[no-untyped-call]

    def show(self, name: str, part: Part) -> None:
        from IPython.display import update_display

        if self._shown.get(name) not in (None, part):
            self._shown[name] = part
            update_display(_bundle(part), raw=True, display_id=self._id(name))  # type: ignore[no-untyped-call]

    def close(self, head: Part) -> None:
        """Removes the button, which would do nothing in the saved notebook."""
        from IPython.display import update_display

        self.show("head", head)
        if self._button is not None:
            update_display(_bundle(_EMPTY), raw=True, display_id=self._id("button"))  # type: ignore[no-untyped-call]
            self._button.close()
            self._button = None

    def _id(self, name: str) -> str:
        return f"{self._key}-{name}"


class Terminal:
    """Prints the rows when they change, and how the display ended."""

    def __init__(self) -> None:
        self._shown = ""
        self.has_button = False

    def open(self, parts: Sequence[str], on_stop: Callable[[], None] | None) -> None:
        if next(_opened) == 1 and find_spec("IPython") is None:
            self._write(
                "IPython is not installed, so rows are printed as plain lines. "
                'For Jupyter: pip install "headrace[notebook]"'
            )

    def show(self, name: str, part: Part) -> None:
        if name == "body" and part.text and part.text != self._shown:
            self._shown = part.text
            self._write(part.text)

    def close(self, head: Part) -> None:
        if head.text:
            self._write(head.text)

    def _write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _bundle(part: Part) -> dict[str, str]:
    return {"text/html": part.html, "text/plain": part.text}


def _button(on_stop: Callable[[], None]) -> Any | None:
    """None if ipywidgets is not installed. The head then says how to stop."""
    try:
        from ipywidgets import Button  # type: ignore[import-untyped]
    except ImportError:
        return None
    button = Button(description="Stop", icon="stop", tooltip="Stop this display")
    button.on_click(lambda _: on_stop())
    return button
