"""A user-defined function, created by `@hr.udf` and registered by the driver.

In DataFrame code it is called with columns, like one of PySpark; `.func` is the plain function.
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
        return self._build_udf()(*columns)

    def register(self, spark: SparkSession) -> None:
        spark.udf.register(self.name, self._build_udf())

    def _build_udf(self) -> Any:
        from pyspark.sql import functions

        return functions.udf(self.func, self.returns, useArrow=False)
