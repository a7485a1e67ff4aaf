"""Connectors from and to tables of settings; unknown and missing fields are reported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from headrace.errors import ConnectorError, Error, each_of, together
from headrace.spelling import closest, suggest

C = TypeVar("C")


def flatten(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Move the set fields of these nested dataclasses to the top level, as in headrace.toml."""
    flat = {name: value for name, value in fields.items() if name not in names}
    for name in names:
        nested = asdict(fields[name]).items()
        flat |= {key: value for key, value in nested if value is not None and value is not False}
    return flat


def build_from_fields(
    make: Callable[..., C], kind: str, given: Mapping[str, Any], *, title: str, where: str | None
) -> C:
    # `from` cannot be a name in Python: the parameter is `from_`.
    parameters = inspect.signature(make).parameters
    allowed = {name.rstrip("_"): field for name, field in parameters.items()}
    unknown = [key for key in given if key not in allowed]
    problems: list[Error] = [
        ConnectorError(
            f"{title}: {kind} has no field {key!r}.",
            why=f"Allowed: {', '.join(allowed)}.",
            where=where,
            fix=suggest(key, allowed, "Remove it."),
            slug="unknown-field",
        )
        for key in unknown
    ]
    needed = [name for name, field in allowed.items() if field.default is field.empty]
    meant = {closest(key, allowed) for key in unknown}
    missing = [name for name in needed if name not in given and name not in meant]
    if missing:
        problems.append(
            ConnectorError(
                f"{title}: {kind} needs {', '.join(missing)}.",
                where=where,
                fix="Add " + " and ".join(f"{name} = …" for name in missing),
                slug="missing-field",
            )
        )
    if problems and not given.keys() >= set(needed):
        raise together(problems)  # too few fields to build it
    try:
        made = make(**{allowed[key].name: value for key, value in given.items() if key in allowed})
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
