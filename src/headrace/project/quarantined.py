"""Records that did not fit, of all deployed pipelines or of one."""

from __future__ import annotations

from headrace.errors import ConfigError
from headrace.explore.quarantines import Quarantine, quarantines
from headrace.project import tables
from headrace.project.workspace import Workspace
from headrace.words import near


def found(work: Workspace, name: str | None, newest: int) -> list[Quarantine]:
    seen = quarantines(tables.known_names(work), newest)
    if name is None:
        return seen
    by_name = {n for one in seen for n in (one.pipeline, one.of, one.query, full(one))}
    if name not in by_name:
        meant = near(name, by_name)
        raise ConfigError(
            f"There is no quarantine of {name!r}.",
            why=f"There is: {', '.join(sorted(map(full, seen))) or 'none yet'}.",
            fix=f"Did you mean {meant!r}?" if meant else "headrace quarantine list shows all",
            slug="unknown-quarantine",
        )
    return [one for one in seen if name in (one.pipeline, one.of, one.query, full(one))]


def full(one: Quarantine) -> str:
    return f"{one.pipeline}/{one.query}"
