"""Checks of the column names given to a transform."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.errors import DefinitionError
from headrace.spelling import closest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def require(df: DataFrame, transform: str, names: Iterable[str]) -> dict[str, str]:
    """The types of all columns by name; raises for the first unknown one of `names`."""
    kinds = dict(df.dtypes)
    for name in names:
        if name not in kinds:
            meant = closest(name, kinds)
            raise DefinitionError(
                f"hr.{transform}: unknown column {name!r}.",
                why=f"The columns are {', '.join(kinds)}.",
                fix=f"Did you mean {meant!r}?" if meant else "Use one of these columns.",
                slug="unknown-column",
            )
    return kinds
