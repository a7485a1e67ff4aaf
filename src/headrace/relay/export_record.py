"""What an exporter has sent and dropped, in its file below `exports/`.

`headrace status` shows its problem, and the counts are metrics themselves. Used only by the thread
of its exporter. Invariant: no secret is stored or logged.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.failures.redaction import redact
from headrace.model.progress_exports import Export
from headrace.model.state_paths import StatePaths
from headrace.secrets import resolved_values
from headrace.state import progress_exports


class ExportRecord:
    """Owns the file. The counts go on after a restart."""

    def __init__(self, places: StatePaths, name: str) -> None:
        self._places = places
        self._name = name
        self._written = progress_exports.read(places, name)

    def note(
        self, now: float, to: str, *, sent: int = 0, dropped: int = 0, problem: str | None = None
    ) -> list[str]:
        """Adds to the counts. Returns the problems, for the log."""
        before = self._written or Export(self._name)
        problem = redact(problem, resolved_values()) if problem else None
        new = replace(
            before,
            to=to or before.to,
            sent=before.sent + sent,
            dropped=before.dropped + dropped,
            dropped_at=now if dropped else before.dropped_at,
            problem=problem,
        )
        problems = [f"[metrics.{self._name}]: {problem}"] if problem else []
        if new != self._written:
            try:
                progress_exports.write(self._places, new)
            except OSError as exc:
                path = self._places.export(self._name)
                problems.append(f"{path} could not be written: {exc.strerror or exc}")
            self._written = new
        return problems
