"""Folders of Headrace's own beside the project: checkpoints, results, quarantine. For their owner.

They hold records, some just as they came. Sinks are the user's data, and shared as the user says.
Invariant: a folder that is there already stays as it is: somebody may have opened it on purpose.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from headrace.config import Settings
from headrace.driver import lock


def make_folders(settings: Settings, used: Collection[str]) -> None:
    """Those that these paths lie in, as far as they are on this machine's disks."""
    for root in (settings.checkpoints, settings.results, settings.quarantine):
        folder = lock.local_path(root)
        if folder is not None and any(path.startswith(root.rstrip("/") + "/") for path in used):
            with contextlib.suppress(OSError):  # who writes there says why it cannot
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
