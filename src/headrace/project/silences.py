"""Silences as a person writes them: names are checked, so that a misspelt one is noticed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from headrace.alerts.rules import table
from headrace.errors import ConfigError
from headrace.project import status
from headrace.project.workspace import Workspace, resolve_query
from headrace.spelling import closest
from headrace.store import alerts, db, silences
from headrace.store.silences import Silence


@dataclass(frozen=True, slots=True)
class Subject:
    """Which alerts, by globs."""

    pipeline: str
    query: str | None
    rule: str


def choose(work: Workspace, name: str | None, pipeline: str | None, rule: str | None) -> Subject:
    """`name`: a pipeline or a query; `pipeline` and `rule`: globs."""
    if name is not None and pipeline is not None:
        raise _bad(
            "A silence needs either NAME or --pipeline, not both.",
            "NAME is one pipeline or query, --pipeline a glob for several pipelines.",
            "Leave out one of them.",
        )
    if name is None and pipeline is None and rule is None:
        raise _bad(
            "The silence names no alerts.",
            "Without a name, it would silence all pipelines.",
            "Add the name of a pipeline or query, or --rule. "
            'To silence everything: --pipeline "*".',
        )
    known = status.queries(work)
    query = None
    if name is not None:
        pipeline, query = resolve_query(work, name, known)
    elif pipeline is not None:
        _check_glob("pipeline", pipeline, work.names | known.keys(), "headrace status")
    if rule is not None:
        rules = {*table.names(), *work.settings.rules, *_rules_of_alerts(work)}
        _check_glob("rule", rule, rules, "headrace alerts list --all --json")
    return Subject(pipeline or "*", query, rule or "*")


def end_after(duration_s: float, now: float) -> float:
    """When a silence of this length ends."""
    if duration_s <= 0 or not math.isfinite(duration_s):
        raise _bad("The silence has no length.", None, "Write, for example, --for 2h.")
    return now + duration_s


def list_all(work: Workspace, at: float, *, is_all: bool) -> list[Silence]:
    ask = partial(silences.list_silences, at=at, is_all=is_all)
    return db.read(work.places.alerts, ask) or []


def _rules_of_alerts(work: Workspace) -> set[str]:
    return db.read(work.places.alerts, alerts.list_rules) or set()


def _check_glob(what: str, glob: str, known: Iterable[str], command: str) -> None:
    names = sorted(known)
    if any(fnmatchcase(name, glob) for name in names) or glob == "*":
        return
    meant = closest(glob, names)
    near = f'Did you mean "{meant}"? ' if meant else ""
    raise ConfigError(
        f'No {what} is called "{glob}".'
        if not set(glob) & set("*?[")
        else f'No {what} matches "{glob}".',
        why=f"{near}Known: {', '.join(names[:30]) or 'none'}.",
        fix=f"List the {what}s: {command}",
        slug="unknown-name",
    )


def _bad(what: str, why: str | None, fix: str) -> ConfigError:
    return ConfigError(what, why=why, fix=fix, slug="bad-silence")
