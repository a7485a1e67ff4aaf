"""The desired state of pipelines: `.headrace/desired/PIPELINE.json`.

Only the supervisor writes these files (`supervisor/requested_changes.py`); any process may read
them. Invariant: a damaged file is read as `unknown`, never as missing.
"""

from __future__ import annotations

import re

from headrace.errors import StoreError
from headrace.json_file import read_json, write_json
from headrace.model.runs import Desired, Wanted
from headrace.model.state_paths import StatePaths

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def read(places: StatePaths, pipeline: str) -> Desired | None:
    """None if it was never deployed."""
    try:
        body = read_json(places.desired(pipeline))
        if body is None:
            return None
        found = Desired.from_json(body)
        is_sound = found.pipeline == pipeline and _is_sound(found)
    except (StoreError, TypeError, AttributeError):
        return damaged_placeholder(pipeline)
    return found if is_sound else damaged_placeholder(pipeline)


def damaged_placeholder(pipeline: str) -> Desired:
    """The value of a damaged file."""
    return Desired(pipeline, Wanted.UNKNOWN.value, version="", profile="dev", file="")


def read_all(places: StatePaths) -> list[Desired]:
    try:
        names = sorted(path.stem for path in places.desired_folder.glob("*.json"))
    except OSError:
        return []
    known = [name for name in names if NAME.fullmatch(name)]
    return [found for name in known if (found := read(places, name)) is not None]


def _is_sound(found: Desired) -> bool:
    """Whether a supervisor can have written these values."""
    texts = (found.wanted, found.version, found.profile, found.file, found.session, found.by)
    lists = (found.args, found.previous)
    return (
        all(isinstance(text, str) for text in (*texts, found.request))
        and found.wanted in set(Wanted)
        and all(isinstance(one, tuple) and all(isinstance(t, str) for t in one) for one in lists)
        and isinstance(found.generation, int)
        and isinstance(found.at, int | float)
        and isinstance(found.accepted_gaps, tuple | None)
        and (NAME.fullmatch(found.version) is not None or found.wanted != Wanted.RUNNING)
        and (found.former is None or _is_sound(Desired.from_json(found.former)))
    )


def write(places: StatePaths, wanted: Desired) -> None:
    write_json(places.desired(wanted.pipeline), wanted.to_json())
