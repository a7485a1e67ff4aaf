"""`hr.route` sends the rows of a query to several topics: each row to all whose condition is true.

It uses one projection and one `explode`: a union of filters would read the source once per topic,
and the real-time trigger does not support it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOPIC = "topic"


def route(df: DataFrame, topics: Mapping[str, str | Column]) -> DataFrame:
    """Adds a column `topic`, for a sink without one. Conditions are SQL or columns; rows without a
    match are dropped."""
    from pyspark.sql import functions as F

    if not isinstance(topics, Mapping) or not topics:
        raise DefinitionError(
            "hr.route needs at least one topic.",
            why=f"It was given {topics!r}.",
            fix='Write hr.route(df, {"errors": "level = \'ERROR\'", "all": "true"}).',
            slug="bad-route",
        )
    wanted = [
        F.when(F.expr(when) if isinstance(when, str) else when, F.lit(topic))
        for topic, when in topics.items()
    ]
    return df.withColumn(TOPIC, F.explode(F.array_compact(F.array(*wanted))))
