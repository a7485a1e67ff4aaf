"""The notebook's kernel: which cell is running, and when something that is shown has to end: its
cell runs again, the kernel is interrupted (busy or idle), or it ends.

Invariant: a signal handler here only counts. Who lives looks at the count by itself.
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

_living: dict[int, tuple[str, Callable[[str], None]]] = {}
_tokens = itertools.count(1)
_lock = threading.Lock()
_idle_interrupts = 0
_hooked: set[int] = set()  # shells that call us


def shell() -> Any | None:
    """IPython's shell, if it is that of a notebook; None in a terminal and in plain Python."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    found = get_ipython()
    return found if getattr(found, "kernel", None) is not None else None


def interrupts() -> int:
    """How often the kernel was interrupted while it was idle."""
    return _idle_interrupts


def born(end: Callable[[str], None]) -> int:
    """`end(why)` is called when it has to; until `gone`."""
    token = next(_tokens)
    found = shell()
    if found is not None:
        _hook(found)
    with _lock:
        _living[token] = (_cell(found), end)
    return token


def gone(token: int) -> None:
    with _lock:
        _living.pop(token, None)


def end_all(why: str) -> None:
    for token, (_, end) in _listed():
        end(why)
        gone(token)


def _listed() -> list[tuple[int, tuple[str, Callable[[str], None]]]]:
    with _lock:
        return list(_living.items())


def _cell(found: Any | None) -> str:
    """The cell's own id where the page tells it, else its text."""
    parent = found.get_parent() if found is not None else {}
    named = (parent.get("metadata") or {}).get("cellId")
    return str(named or (parent.get("content") or {}).get("code") or "")


def _hook(found: Any) -> None:
    _hook_idle_interrupts(found.kernel)
    if id(found) not in _hooked:
        _hooked.add(id(found))
        found.events.register("pre_run_cell", _before_cell)
        found.events.register("post_run_cell", _after_cell)


def _before_cell(info: Any) -> None:
    """What this cell has shown before is replaced by what it shows now."""
    cell = getattr(info, "cell_id", None) or info.raw_cell
    for token, (own, end) in _listed():
        if own == cell:
            end("Replaced: its cell ran again")
            gone(token)


def _after_cell(result: Any) -> None:
    if isinstance(result.error_in_exec, KeyboardInterrupt):
        end_all("Stopped by an interrupt")


def _hook_idle_interrupts(kernel: Any) -> None:
    """While a cell runs, an interrupt is Python's own. ipykernel keeps what holds between cells in
    this attribute, and puts it back when the cell has ended."""
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
    if not _living:
        return
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    thread = threading.Thread(target=end_all, args=("Ended with its kernel",), daemon=True)
    thread.start()
    thread.join(AT_EXIT_S)
