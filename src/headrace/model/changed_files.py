"""Input files that changed before they were read, added up over a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.model.numbers import count

FILES_NAMED = 10  # of each kind; the rest is counted


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """`since` is when the first one was noticed."""

    vanished: int = 0
    vanished_files: tuple[str, ...] = ()
    rewritten: int = 0
    rewritten_files: tuple[str, ...] = ()
    since: float | None = None

    def plus(self, data: Mapping[str, Any], at: float) -> ChangedFiles:
        """With the counts of one `inputs_changed` event."""
        return ChangedFiles(
            vanished=self.vanished + count(data.get("vanished")),
            vanished_files=_names(self.vanished_files, data.get("vanished_files")),
            rewritten=self.rewritten + count(data.get("rewritten")),
            rewritten_files=_names(self.rewritten_files, data.get("rewritten_files")),
            since=at if self.since is None else self.since,
        )


NOTHING = ChangedFiles()


def _names(known: tuple[str, ...], more: Any) -> tuple[str, ...]:
    named = [one for one in (more if isinstance(more, list) else ()) if isinstance(one, str)]
    return (*known, *named)[:FILES_NAMED]
