"""Runs a script as the Python interpreter would: `__main__`, arguments, tracebacks.

Used by `script`. The script must not notice that Headrace runs it.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path


def execute(copy: Path, original: Path, args: Sequence[str]) -> None:
    """Run the code of `copy` under the name of `original`, as `python original ARGS` would."""
    name = str(original)
    # The `from __future__` of this module must not apply to the script.
    code = compile(copy.read_bytes(), name, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=name,
        __cached__=None,
        __builtins__=builtins,
        __annotations__={},
        __loader__=SourceFileLoader("__main__", name),
    )
    sys.modules["__main__"] = module  # so that its functions are pickled by value
    sys.argv = [name, *args]
    sys.path[:0] = [str(copy.parent), str(original.parent)]
    exec(code, module.__dict__)  # noqa: S102 (this is what running a script means)


def show(exc: BaseException) -> None:
    """Print an uncaught exception as Python does, without the frames of Headrace."""
    if isinstance(exc, SystemExit):
        if isinstance(exc.code, str):
            sys.stderr.write(f"{exc.code}\n")
        return
    trace = exc.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in _OURS:
        trace = trace.tb_next
    sys.excepthook(type(exc), exc.with_traceback(trace), trace)


_OURS = {__name__, "headrace.driver.script"}
