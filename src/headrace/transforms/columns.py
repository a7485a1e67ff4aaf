"""Columns that a transform is told by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.errors import DefinitionError
from headrace.words import near

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def require(df: DataFrame, transform: str, names: Iterable[str]) -> dict[str, str]:
    """Types by name of all columns; the first of `names` that is none of them is told."""
    kinds = dict(df.dtypes)
    for name in names:
        if name not in kinds:
            meant = near(name, kinds)
            raise DefinitionError(
                f"hr.{transform}: there is no column {name!r}.",
                why=f"The columns are {', '.join(kinds)}.",
                fix=f"Did you mean {meant!r}?" if meant else "Name one of them.",
                slug="unknown-column",
            )
    return kinds
