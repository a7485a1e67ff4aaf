"""Generates docs/reference/failures.md from the catalogue; a test checks that it is up to date.

python -m headrace.failures.reference > docs/reference/failures.md
"""

from __future__ import annotations

import re
import sys

from headrace.failures.catalogue import search_order
from headrace.failures.catalogue_entry import CatalogueEntry, FailureKind

_HEAD = """\
# Failures

When a query fails, Headrace looks the failure up in this catalogue, and shows its meaning and what
to do. The kind decides what happens next:

| kind | what Headrace does |
|---|---|
| retry | restarts after 1 s, then with growing delays of up to 60 s, without limit |
| retry-then-human | restarts up to the number of times in parentheses; then the pipeline \
needs attention |
| human | does not restart, because a restart would not help: the pipeline needs attention |
| data | restarts; after three identical failures in the same batch without a commit in between, \
the pipeline needs attention |
| unknown | same as data |

`restart.retries` limits all of these: when no retries are left, the pipeline needs attention. In
that case, fix the cause and run `headrace start NAME`.

This page is generated: `python -m headrace.failures.reference`.

| failure | kind | meaning | what to do |
|---|---|---|---|
"""
_OPTIONAL = re.compile(r"\[[^\[\]{}]*\{\w+\}[^\[\]{}]*\]")


def render() -> str:
    entries = sorted(search_order.ENTRIES, key=lambda e: e.slug)
    return _HEAD + "".join(_row(entry) for entry in entries)


def _row(entry: CatalogueEntry) -> str:
    kind = entry.kind.value
    if entry.kind is FailureKind.RETRY_THEN_HUMAN:
        kind += f" ({entry.retries})"
    meaning = f"{_general(entry.what)} {_general(entry.why)}".strip()
    name = f'<a id="{entry.slug}"></a>`{entry.slug}`'
    return f"| {name} | {kind} | {meaning} | {_general(entry.fix)} |\n"


def _general(text: str) -> str:
    """The text without the values of a concrete failure."""
    if text.startswith("{type}"):
        return ""
    text = _OPTIONAL.sub("", text).replace(": {message}", ".").replace("{message}", "")
    text = text.replace(": {type}", "").replace("{type}", "an exception")
    text = text.replace("|", "\\|").strip()
    return text + "." if text and not text.endswith(".") else text


if __name__ == "__main__":
    sys.stdout.write(render())
