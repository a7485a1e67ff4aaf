"""Input files vanished or were rewritten after Spark listed them and before it read them."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding, Severity
from headrace.model.limits import HealthLimits

NAMED = 3


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    changed = query.inputs
    if changed.vanished:
        yield Finding(
            slug="input-vanished",
            what=f"{_format_count(changed.vanished)} vanished before being read, so their rows are "
            f"missing. Files: {_format_names(changed.vanished_files, changed.vanished)}.",
            cause="Spark lists the folder once for many batches. The files were deleted or "
            "moved after Spark had listed them.",
            fix="Copy the files back under new names, because Spark never reads the same name "
            "twice. Their rows are then read once. In future, delete or archive a file only "
            "after its batch has been committed.",
            since=changed.since,
            where=query.place,
        )
    if changed.rewritten:
        yield Finding(
            slug="input-rewritten",
            what=f"{_format_count(changed.rewritten)} changed after being listed, so rows may be "
            "missing or incomplete. Files: "
            f"{_format_names(changed.rewritten_files, changed.rewritten)}.",
            cause="A program writes directly into the folder, or appends to an existing file. "
            "Spark reads each file only once and misses everything that is written later.",
            fix="Write each file elsewhere on the same disk, and move it into the folder when "
            "it is complete. Compare the changed files with the output. To read a changed file "
            "again, copy it under a new name; rows that were already read are then read twice.",
            severity=Severity.WARNING.value,
            since=changed.since,
            where=query.place,
        )


def _format_count(count: int) -> str:
    return f"{count:,} input file{'s' * (count != 1)}"


def _format_names(files: tuple[str, ...], count: int) -> str:
    rest = count - len(files[:NAMED])
    return ", ".join(files[:NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
