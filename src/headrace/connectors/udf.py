"""A Python function of the user as Spark sees it. Made by `@hr.udf`, registered by the driver.

In DataFrame code it is called with columns, as PySpark's own; `.func` is the plain function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


class Udf:
    def __init__(self, func: Callable[..., Any], name: str, returns: str) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.name = name
        self.returns = returns

    def __call__(self, *columns: Column | str) -> Column:
        return self._made()(*columns)

    def register(self, spark: SparkSession) -> None:
        """Make it known to SQL text under its name."""
        spark.udf.register(self.name, self._made())

    def _made(self) -> Any:
        from pyspark.sql import functions

        return functions.udf(self.func, self.returns, useArrow=False)
