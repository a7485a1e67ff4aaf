"""Writes docs/reference/failures.md from the catalogue; a test keeps the two the same.

python -m headrace.failures.page > docs/reference/failures.md
"""

from __future__ import annotations

import re
import sys

from headrace.failures.catalogue import table
from headrace.failures.entry import Entry, Kind

_HEAD = """\
# Failures

When a query fails, Headrace finds the failure in this catalogue and shows its meaning and what to
do. The kind decides what happens next:

| kind | what Headrace does |
|---|---|
| retry | starts again, after 1 s, then later each time up to 60 s, for as long as it takes |
| retry-then-human | starts again as often as the table says, then the pipeline needs attention |
| human | stops: the pipeline needs attention, since trying again cannot help |
| data | starts again; the same failure of the same batch three times: it needs attention |
| unknown | as data |

This page is made from the code: `python -m headrace.failures.page`.

| failure | kind | meaning | what to do |
|---|---|---|---|
"""
_OPTIONAL = re.compile(r"\[[^\[\]{}]*\{\w+\}[^\[\]{}]*\]")


def render() -> str:
    entries = sorted(table.ENTRIES, key=lambda e: (e.number, e.slug))
    return _HEAD + "".join(_row(entry) for entry in entries)


def _row(entry: Entry) -> str:
    kind = entry.kind.value
    if entry.kind is Kind.RETRY_THEN_HUMAN:
        kind += f" ({entry.retries})"
    meaning = f"{_general(entry.what)} {_general(entry.why)}".strip()
    name = f'<a id="{entry.slug}"></a>`{entry.slug}`'
    return f"| {name} | {kind} | {meaning} | {_general(entry.fix)} |\n"


def _general(words: str) -> str:
    """The words without the names that only a real failure has."""
    if words.startswith("{type}"):
        return ""  # all that such a failure has to say is its own message
    words = _OPTIONAL.sub("", words).replace(": {message}", ".").replace("{message}", "")
    words = words.replace("{type}", "an exception").replace("|", "\\|").strip()
    return words + "." if words and not words.endswith(".") else words


if __name__ == "__main__":
    sys.stdout.write(render())
