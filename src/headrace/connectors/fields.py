"""From a table of settings to a connector: a field that is not known, or missing, is told with what
was probably meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from headrace.errors import ConnectorError, Error, each_of, together
from headrace.words import near

C = TypeVar("C")


def fitted(
    make: Callable[..., C], kind: str, given: Mapping[str, Any], *, title: str, where: str | None
) -> C:
    """`title` and `where` are for errors."""
    allowed = inspect.signature(make).parameters
    problems: list[Error] = []
    for key in given:
        if key not in allowed:
            close = near(key, allowed)
            problems.append(
                ConnectorError(
                    f"{title}: {kind} has no field {key!r}.",
                    why=f"Its fields are {', '.join(allowed)}.",
                    where=where,
                    fix=f"Did you mean {close!r}?" if close else "Remove it.",
                    slug="unknown-field",
                )
            )
    needed = [name for name, one in allowed.items() if one.default is inspect.Parameter.empty]
    meant = {near(key, allowed) for key in given if key not in allowed}
    missing = [name for name in needed if name not in given and name not in meant]
    if missing:
        problems.append(
            ConnectorError(
                f"{title}: {kind} needs {', '.join(missing)}.",
                where=where,
                fix=f"Add {missing[0]} = …",
                slug="missing-field",
            )
        )
    if problems and not given.keys() >= set(needed):
        raise together(problems)  # it cannot be made at all
    try:
        made = make(**{key: value for key, value in given.items() if key in allowed})
    except Error as exc:
        problems += [
            ConnectorError(
                f"{title}: {one.what}", why=one.why, where=where, fix=one.fix, slug=one.code
            )
            for one in each_of(exc)
        ]
        raise together(problems) from exc
    if problems:
        raise together(problems)
    return made
