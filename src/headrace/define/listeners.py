"""The user's listeners (`@hr.listener`): which objects are accepted. Pure; does not need Spark.

`driver/user_listeners` creates them in a run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from headrace.define.declarations import Collector, Declaration
from headrace.errors import DefinitionError, Error

BASE = "StreamingQueryListener"
WHY = (
    f"A listener is a class that derives from pyspark.sql.streaming.{BASE}, or a function that "
    "returns an object of such a class."
)
SESSION = "spark"


def is_listener_class(found: type) -> bool:
    """By name, because the definitions can be read without PySpark."""
    return any(
        one.__name__ == BASE and one.__module__.startswith("pyspark.") for one in found.__mro__
    )


def not_a_listener(what: str, where: str, found: object = None) -> DefinitionError:
    is_object = not isinstance(found, type) and is_listener_class(type(found))
    return DefinitionError(
        what,
        why=WHY,
        where=where,
        fix="Put @hr.listener above the class, or above a function that returns the object."
        if is_object
        else f"from pyspark.sql.streaming import {BASE}, and derive the class from it.",
        slug="not-a-listener",
    )


def declared(collector: Collector) -> tuple[tuple[Declaration, ...], list[Error]]:
    """All listeners, and what is wrong with their parameters."""
    found = tuple(one for one in collector.declared if one.kind == "listener")
    problems: list[Error] = []
    for one in found:
        if unknown := [name for name in _needed(one.function) if name != SESSION]:
            problems.append(
                DefinitionError(
                    f"The listener {one.name!r} needs the parameter {unknown[0]!r}.",
                    why=f"Headrace creates it, and can only pass {SESSION}, the Spark session.",
                    where=str(one.place),
                    fix=f"Give {unknown[0]} a default, or put @hr.listener above a function that "
                    "returns the object.",
                    slug="bad-parameter",
                )
            )
    return found, problems


def takes_session(function: Callable[..., Any]) -> bool:
    return SESSION in inspect.signature(function).parameters


def _needed(function: Callable[..., Any]) -> Sequence[str]:
    """Parameters without a default."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in several]
