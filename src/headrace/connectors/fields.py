"""From a table of settings to a connector: a field that is not known, or missing, is told with what
was probably meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from headrace.errors import ConnectorError, Error
from headrace.words import near

C = TypeVar("C")


def fitted(
    make: Callable[..., C], kind: str, given: Mapping[str, Any], *, title: str, where: str | None
) -> C:
    """`title` and `where` are for errors."""
    allowed = inspect.signature(make).parameters
    for key in given:
        if key not in allowed:
            meant = near(key, allowed)
            raise ConnectorError(
                f"{title}: {kind} has no field {key!r}.",
                why=f"Its fields are {', '.join(allowed)}.",
                where=where,
                fix=f"Did you mean {meant!r}?" if meant else "Remove it.",
                slug="unknown-field",
            )
    missing = [
        n for n, p in allowed.items() if p.default is inspect.Parameter.empty and n not in given
    ]
    if missing:
        raise ConnectorError(
            f"{title}: {kind} needs {', '.join(missing)}.",
            where=where,
            fix=f"Add {missing[0]} = …",
            slug="missing-field",
        )
    try:
        return make(**given)
    except Error as exc:
        raise ConnectorError(
            f"{title}: {exc.what}", why=exc.why, where=where, fix=exc.fix, slug=exc.code
        ) from exc
