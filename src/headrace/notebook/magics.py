"""`%load_ext headrace`: the cell magic `%%sql`, and a `display` that shows streams as they change.

IPython finds `load_ipython_extension` in the package itself, which takes it from here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from headrace.errors import ConnectorError
from headrace.notebook import batch
from headrace.notebook.display import Display, display
from headrace.words import near


def load_ipython_extension(shell: Any) -> None:
    shell.register_magic_function(sql, "cell", "sql")
    shell.push({"display": show}, interactive=False)


def unload_ipython_extension(shell: Any) -> None:
    """IPython's own `display` is a builtin: it is back once ours is gone."""
    shell.magics_manager.magics["cell"].pop("sql", None)
    shell.drop_by_id({"display": show})


def sql(line: str, cell: str) -> Display | None:
    """Show the answer of the session of this notebook, live where it is a stream.

    Options as for hr.display: %%sql title="Orders" chart=bar x=item y=amount
    """
    options = _options(line)
    frame = batch.sql(cell)
    return display(frame, **options) if frame.columns else None  # a command has no answer


def show(*what: Any, **options: Any) -> Any:
    """hr.display for a DataFrame or a query of Spark, IPython's `display` for everything else."""
    if len(what) == 1 and _is_sparks(what[0]):
        return display(what[0], **options)
    from IPython import display as ipython

    return ipython.display(*what, **options)  # type: ignore[no-untyped-call]


def _is_sparks(what: Any) -> bool:
    if not type(what).__module__.startswith("pyspark.sql."):
        return False  # without importing pyspark, which takes a second
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    return isinstance(what, DataFrame | StreamingQuery)


def _names(text: str) -> list[str]:
    return text.split(",")


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text  # hr.display says what is wrong with it


_OPTIONS: dict[str, Callable[[str], Any]] = {
    "title": str,
    "chart": str,
    "x": str,
    "y": _names,
    "rows": _number,
    "every": str,
}


def _options(line: str) -> dict[str, Any]:
    found = {}
    for word in shlex.split(line):
        name, _, value = word.partition("=")
        if name not in _OPTIONS or not value:
            meant = near(name, _OPTIONS)
            raise ConnectorError(
                f"%%sql does not know {word!r}.",
                why=f"Its options are {', '.join(f'{one}=…' for one in _OPTIONS)}.",
                fix=f"Did you mean {meant}=…?" if meant else "Begin the SQL on the next line.",
                slug="bad-option",
            )
        found[name] = _OPTIONS[name](value)
    return found
