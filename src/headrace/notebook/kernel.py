"""Ends displays when their cell runs again, or when the kernel is interrupted or exits.

Invariant: the signal handler only counts. Each display polls the count.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import signal
import threading
from collections.abc import Callable
from typing import Any

AT_EXIT_S = 4.0  # Jupyter kills a kernel that takes longer than five seconds to end

_displays: dict[int, tuple[str, Callable[[str], None]]] = {}  # cell and `end` by token
_tokens = itertools.count(1)
_lock = threading.Lock()
_idle_interrupts = 0
_hooked: set[int] = set()  # ids of shells with our hooks


def shell() -> Any | None:
    """IPython's shell in a notebook; None in a terminal and in plain Python."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    ipython = get_ipython()
    return ipython if getattr(ipython, "kernel", None) is not None else None


def interrupts() -> int:
    """How often the kernel was interrupted while idle."""
    return _idle_interrupts


def register(end: Callable[[str], None]) -> int:
    """`end(why)` is called when the display of the current cell must end, until `unregister`."""
    token = next(_tokens)
    ipython = shell()
    if ipython is not None:
        _hook(ipython)
    with _lock:
        _displays[token] = (_cell(ipython), end)
    return token


def unregister(token: int) -> None:
    with _lock:
        _displays.pop(token, None)


def end_all(why: str, cell: str | None = None) -> None:
    """Ends all displays, or those of one cell."""
    with _lock:
        displays = list(_displays.items())
    for token, (own_cell, end) in displays:
        if cell in (None, own_cell):
            end(why)
            unregister(token)


def _cell(ipython: Any | None) -> str:
    """The cell's id if the front end sends it, else its text."""
    parent = ipython.get_parent() if ipython is not None else {}
    cell_id = (parent.get("metadata") or {}).get("cellId")
    return str(cell_id or (parent.get("content") or {}).get("code") or "")


def _hook(ipython: Any) -> None:
    _hook_idle_interrupts(ipython.kernel)
    if id(ipython) not in _hooked:
        _hooked.add(id(ipython))
        ipython.events.register("pre_run_cell", _before_cell)
        ipython.events.register("post_run_cell", _after_cell)


def _before_cell(info: Any) -> None:
    cell = getattr(info, "cell_id", None) or info.raw_cell
    end_all("Replaced: the cell was run again", cell)


def _after_cell(result: Any) -> None:
    if isinstance(result.error_in_exec, KeyboardInterrupt):
        end_all("Stopped by an interrupt")


def _hook_idle_interrupts(kernel: Any) -> None:
    """While a cell runs, an interrupt raises KeyboardInterrupt. ipykernel saves the handler for the
    time between cells in this attribute, and restores it after each cell."""
    before = getattr(kernel, "saved_sigint_handler", None)
    if getattr(before, "is_headrace", False) or before is None:
        return

    def count(number: int, stack: Any) -> None:
        global _idle_interrupts
        _idle_interrupts += 1
        if callable(before):
            before(number, stack)

    count.is_headrace = True  # type: ignore[attr-defined]
    if threading.current_thread() is threading.main_thread():
        kernel.saved_sigint_handler = count


@atexit.register
def _at_exit() -> None:
    if not _displays:
        return
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    thread = threading.Thread(
        target=end_all, args=("Ended because the kernel shut down",), daemon=True
    )
    thread.start()
    thread.join(AT_EXIT_S)
