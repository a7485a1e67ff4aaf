"""Quarantined records of all deployed pipelines, or of one."""

from __future__ import annotations

from headrace.errors import ConfigError
from headrace.explore.quarantine import Quarantine, quarantines
from headrace.project import tables
from headrace.project.workspace import Workspace
from headrace.spelling import closest


def find(work: Workspace, name: str | None, newest: int) -> list[Quarantine]:
    seen = quarantines(tables.known_names(work), newest)
    if name is None:
        return seen
    by_name = {each for quarantine in seen for each in _names(quarantine)}
    if name not in by_name:
        meant = closest(name, by_name)
        raise ConfigError(
            f"Unknown quarantine {name!r}.",
            why=f"Known: {', '.join(sorted(map(full, seen))) or 'none yet'}.",
            fix=f"Did you mean {meant!r}?" if meant else "headrace quarantine list shows all",
            slug="unknown-quarantine",
        )
    return [quarantine for quarantine in seen if name in _names(quarantine)]


def _names(quarantine: Quarantine) -> tuple[str, ...]:
    return (quarantine.pipeline, quarantine.origin, quarantine.query, full(quarantine))


def full(quarantine: Quarantine) -> str:
    return f"{quarantine.pipeline}/{quarantine.query}"
