"""Definitions of what is deployed, read back. Making one runs user code: `cli/definitions.py`."""

from __future__ import annotations

from headrace.errors import Error
from headrace.jsonfile import read_json
from headrace.model.pipeline import Definition
from headrace.project.workspace import Workspace


def stored(work: Workspace, version: str, profile: str, pipeline: str) -> Definition | None:
    """The definition of a deployed version, if it has one (a script has none)."""
    try:
        body = read_json(work.places.definition(version, profile, pipeline))
        return Definition.from_json(body) if body else None
    except (Error, KeyError, TypeError):
        return None
