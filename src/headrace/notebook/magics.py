"""`%load_ext headrace`: the cell magic `%%sql`, and a `display` that updates streams.

The package re-exports `load_ipython_extension`, where IPython looks for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from headrace.errors import ConnectorError
from headrace.notebook import batch_io
from headrace.notebook.display import Display, display
from headrace.spelling import closest


def load_ipython_extension(shell: Any) -> None:
    shell.register_magic_function(sql, "cell", "sql")
    shell.push({"display": show}, interactive=False)


def unload_ipython_extension(shell: Any) -> None:
    """IPython's own `display` is a builtin, so it is back once ours is removed."""
    shell.magics_manager.magics["cell"].pop("sql", None)
    shell.drop_by_id({"display": show})


def sql(line: str, cell: str) -> Display | None:
    """Run SQL in this notebook's Spark session and show the result, live if it is a stream.

    The options are those of hr.display: %%sql title="Orders" chart=bar x=item y=amount
    """
    options = _options(line)
    frame = batch_io.sql(cell)
    return display(frame, **options) if frame.columns else None  # a command has no result


def show(*what: Any, **options: Any) -> Any:
    """hr.display for a Spark DataFrame or query, IPython's `display` for everything else."""
    if len(what) == 1 and _is_from_spark(what[0]):
        return display(what[0], **options)
    from IPython import display as ipython

    return ipython.display(*what, **options)  # type: ignore[no-untyped-call]


def _is_from_spark(what: Any) -> bool:
    if not type(what).__module__.startswith("pyspark.sql."):
        return False  # before the import of pyspark, which takes a second
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    return isinstance(what, DataFrame | StreamingQuery)


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text  # hr.display raises the error


_OPTIONS: dict[str, Callable[[str], Any]] = {
    "title": str,
    "chart": str,
    "x": str,
    "y": lambda text: text.split(","),
    "rows": _number,
    "every": str,
}


def _options(line: str) -> dict[str, Any]:
    options = {}
    for word in shlex.split(line):
        name, _, value = word.partition("=")
        if name not in _OPTIONS or not value:
            meant = closest(name, _OPTIONS)
            raise ConnectorError(
                f"Unknown option for %%sql: {word!r}.",
                why=f"Options: {', '.join(f'{option}=…' for option in _OPTIONS)}.",
                fix=f"Did you mean {meant}=…?" if meant else "Start the SQL on the next line.",
                slug="bad-option",
            )
        options[name] = _OPTIONS[name](value)
    return options
