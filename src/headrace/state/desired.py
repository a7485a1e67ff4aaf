"""What should run: `.headrace/desired/PIPELINE.json`.

Only the supervisor writes these files (`supervisor/change.py` says how); everyone may read them.
"""

from __future__ import annotations

import re

from headrace.errors import StoreError
from headrace.jsonfile import read_json, write_json
from headrace.model.places import Places
from headrace.model.runs import Desired

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def read(places: Places, pipeline: str) -> Desired | None:
    """None if it was never deployed, or if its file is not one (then it is as good as none)."""
    try:
        body = read_json(places.desired(pipeline))
        return Desired.from_json(body) if body else None
    except (StoreError, TypeError):
        return None


def listed(places: Places) -> list[Desired]:
    try:
        names = sorted(path.stem for path in places.desired_folder.glob("*.json"))
    except OSError:
        return []
    return [found for name in names if (found := read(places, name)) is not None]


def write(places: Places, wanted: Desired) -> None:
    write_json(places.desired(wanted.pipeline), wanted.to_json())
