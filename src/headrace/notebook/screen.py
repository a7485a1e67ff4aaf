"""Where a display is drawn: outputs of a notebook's cell that are replaced in place, or lines in a
terminal. Its parts, from above: head, button, body, foot.
"""

from __future__ import annotations

import itertools
import sys
import uuid
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from headrace.notebook.picture import Part

STOP_HINT = "To stop: interrupt the kernel, or call .stop() on what hr.display returned."
_EMPTY = Part("", "")
_opened = itertools.count(1)


class Screen(Protocol):
    has_button: bool

    def open(self, parts: Sequence[str], on_stop: Callable[[], None] | None) -> None: ...
    def show(self, name: str, part: Part) -> None: ...
    def close(self, head: Part) -> None: ...


class Cell:
    """Outputs of the cell that is running. An update that changes nothing is not sent."""

    def __init__(self) -> None:
        self._key = f"headrace-{uuid.uuid4().hex[:12]}"
        self._shown: dict[str, Part] = {}
        self._button: Any = None
        self.has_button = False

    def open(self, parts: Sequence[str], on_stop: Callable[[], None] | None) -> None:
        """Everything in its place, empty: what comes later is put there from any thread."""
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
        """Without the button, which would be dead, also in the saved notebook."""
        from IPython.display import update_display

        self.show("head", head)
        if self._button is not None:
            update_display(_bundle(_EMPTY), raw=True, display_id=self._id("button"))  # type: ignore[no-untyped-call]
            self._button.close()
            self._button = None

    def _id(self, name: str) -> str:
        return f"{self._key}-{name}"


class Terminal:
    """Plain lines: the rows when they have changed, and how it ended."""

    def __init__(self) -> None:
        self._shown = ""
        self.has_button = False

    def open(self, parts: Sequence[str], on_stop: Callable[[], None] | None) -> None:
        if next(_opened) == 1 and find_spec("IPython") is None:
            self._write(
                "IPython is not installed, so this is shown in plain lines. "
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
    """None where ipywidgets is not installed; the head then says how to stop."""
    try:
        from ipywidgets import Button  # type: ignore[import-untyped]
    except ImportError:
        return None
    made = Button(description="Stop", icon="stop", tooltip="Stop this display")
    made.on_click(lambda _: on_stop())
    return made
