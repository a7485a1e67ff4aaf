"""Generates docs/reference/failures.md from the catalogue and from the tests that cause failures.

`python tests/failures/provoked/page.py` writes it; a test checks that it is up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

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

The last column says how many tests cause the failure for real, with Spark, files, processes or a
Kafka broker, and check its kind and words. The tests are listed below the table. All other entries
are checked with example texts only.

This page is generated: `python tests/failures/provoked/page.py`.

| failure | kind | meaning | what to do | tests |
|---|---|---|---|---|
"""
_TESTS = """\

## Failures that the tests cause

Each test runs a pipeline, breaks something, and checks what the driver reports and what `headrace
why` prints. Those without a link are not in the table above: Headrace itself reports them, before
the query starts or after the driver was killed.

| what the test does | failure or error | kind |
|---|---|---|
"""
_OPTIONAL = re.compile(r"\[[^\[\]{}]*\{\w+\}[^\[\]{}]*\]")


@dataclass(frozen=True, slots=True)
class Provoked:
    """A test that causes a failure: `how` is a sentence."""

    how: str
    slug: str
    kind: str | None  # None: an error of Headrace's own


def render(tests: Iterable[Provoked]) -> str:
    entries = {entry.slug: entry for entry in sorted(search_order.ENTRIES, key=lambda e: e.slug)}
    found = sorted(tests, key=lambda test: (test.slug not in entries, test.slug))
    counts = {slug: sum(test.slug == slug for test in found) for slug in entries}
    rows = (_row(entry, counts[slug]) for slug, entry in entries.items())
    return _HEAD + "".join(rows) + _TESTS + "".join(map(_test_row, found))


def _test_row(test: Provoked) -> str:
    is_entry = any(entry.slug == test.slug for entry in search_order.ENTRIES)
    name = f"[`{test.slug}`](#{test.slug})" if is_entry else f"`{test.slug}`"
    return f"| {test.how} | {name} | {test.kind or ''} |\n"


def _row(entry: CatalogueEntry, tests: int) -> str:
    kind = entry.kind.value
    if entry.kind is FailureKind.RETRY_THEN_HUMAN:
        kind += f" ({entry.retries})"
    meaning = f"{_general(entry.what)} {_general(entry.why)}".strip()
    name = f'<a id="{entry.slug}"></a>`{entry.slug}`'
    return f"| {name} | {kind} | {meaning} | {_general(entry.fix)} | {tests or ''} |\n"


def _general(text: str) -> str:
    """The text without the values of a concrete failure."""
    if text.startswith("{type}"):
        return ""
    text = _OPTIONAL.sub("", text).replace(": {message}", ".").replace("{message}", "")
    text = (
        text.replace("; its fingerprint is {fingerprint}", "")
        .replace(": {type}", "")
        .replace("{type}", "an exception")
    )
    text = text.replace("|", "\\|").strip()
    return text + "." if text and not text.endswith(".") else text
