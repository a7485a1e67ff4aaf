"""A unique name for this state folder.

Two machines may keep their state under the same path and share a topic; the name tells them apart.
"""

from __future__ import annotations

import contextlib
import os
import uuid

from headrace.model.state_paths import StatePaths


def home(places: StatePaths) -> str:
    """Created on first use, and only once even if several processes try."""
    path = places.home
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mine = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
        mine.write_text(uuid.uuid4().hex)
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)
        mine.unlink()
    return path.read_text("ascii").strip()
