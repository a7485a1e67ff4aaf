"""Progress on its way out of the house: how far an exporter has come, and what it had to drop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.runs import Jsonable

NEWS_S = 24 * 3600.0  # so long it is said that some were dropped


@dataclass(frozen=True, slots=True)
class Export(Jsonable):
    """`runs`: of each run where in its events file to go on (`at`), and how many of its events have
    been read and not been delivered (`waiting`). `dropped` is of the project's whole life, and
    `dropped_at` of the last one. `to` and `problem` are for people."""

    name: str
    to: str = ""
    sent: int = 0
    dropped: int = 0
    dropped_at: float | None = None
    waiting: int = 0
    problem: str | None = None
    runs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def words(self, now: float) -> str | None:
        """What a person should know; None while all is well, and has been for a day."""
        is_news = self.dropped_at is not None and now - self.dropped_at < NEWS_S
        if not is_news and not self.problem:
            return None
        counts = [
            f"{self.waiting:,} wait" if self.waiting else "",
            f"{self.dropped:,} were dropped" if self.dropped else "",
        ]
        said = ", ".join(one for one in counts if one) or "none waits"
        return f"progress events to {self.to}: {said}. {self.problem or ''}".rstrip()

    def shown(self) -> dict[str, Any]:
        """Without the places in files."""
        names = ("name", "to", "sent", "dropped", "dropped_at", "waiting", "problem")
        return {name: getattr(self, name) for name in names}
