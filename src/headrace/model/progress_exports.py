"""An exporter of progress events or metrics: what it has sent and dropped, and its position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.runs import Jsonable

NEWS_S = 24 * 3600.0  # how long a drop is reported
METRICS_ONLY = ("prometheus", "statsd", "otlp")  # exporters that send no events


@dataclass(frozen=True, slots=True)
class Export(Jsonable):
    """`runs`: for each run the position in its events file to continue from (`at`), and how many
    events are read but not delivered (`waiting`). `dropped` counts over the project's whole life;
    `dropped_at` is the time of the last one. `to` and `problem` are for people."""

    name: str
    to: str = ""
    sent: int = 0
    dropped: int = 0
    dropped_at: float | None = None
    waiting: int = 0
    problem: str | None = None
    runs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def words(self, now: float) -> str | None:
        """A problem of now or of the last day, as text."""
        is_news = self.dropped_at is not None and now - self.dropped_at < NEWS_S
        if not is_news and not self.problem:
            return None
        counts = [
            f"{self.waiting:,} waiting" if self.waiting else "",
            f"{self.dropped:,} dropped" if self.dropped else "",
        ]
        text = ", ".join(count for count in counts if count) or "none waiting"
        if self.name in METRICS_ONLY:
            text = f"{self.dropped:,} dropped" if is_news and self.dropped else ""
            place = " ".join(word for word in (f"[metrics.{self.name}]", self.to) if word)
            return f"metrics, {place}: {'. '.join(one for one in (text, self.problem) if one)}"
        return f"progress events to {self.to}: {text}. {self.problem or ''}".rstrip()

    def to_status_json(self) -> dict[str, Any]:
        """Without the positions."""
        return {name: value for name, value in self.to_json().items() if name != "runs"}
