"""The results of rules with SQL: one file, written by the relay."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.json_file import read_valid, write_json
from headrace.model.rules import SqlResult
from headrace.model.state_paths import StatePaths


def write(places: StatePaths, found: Iterable[SqlResult]) -> None:
    write_json(places.sql_rules, {"rules": [one.to_json() for one in found]})


def read(places: StatePaths) -> dict[str, SqlResult]:
    """By rule; {} before the first evaluation."""
    found = read_valid(
        places.sql_rules, lambda body: [SqlResult.from_json(one) for one in body["rules"]]
    )
    return {one.rule: one for one in found or ()}
