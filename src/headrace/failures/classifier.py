"""Classifies the text of a failure: kind, explanation, fix, fingerprint. Pure.

The text is redacted before (`redaction`). Search order: the error class of the terminated event;
the causes, deepest first; the trace, deepest first. Wrappers never end the search. Some classes are
often wrappers ("task failed while writing"): they count only if no inner exception is known
(`CatalogueEntry.hints`).

Invariant: never raises, and states nothing that is not in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

from headrace.failures import fingerprint, stack_trace
from headrace.failures.catalogue import code, queries, search_order
from headrace.failures.catalogue_entry import CatalogueEntry, FailureKind
from headrace.failures.stack_trace import TracePart

MESSAGE_CHARS_MAX = 400  # in `what`, `why` and `fix`

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]{3,}(?:\.[A-Z0-9_]+)*)\]")
_QUOTED = re.compile(r"'[^'\n]*'")
_OPTIONAL = re.compile(r"\[([^\[\]{}]*\{(\w+)\}[^\[\]{}]*)\]")
_FIELD = re.compile(r"\{(\w+)\}")
_BRIDGE = re.compile(r"^py4j\.")


@dataclass(frozen=True, slots=True)
class FailureText:
    """`causes` are pairs of class and message, outermost first, as from `getCause()`."""

    error_class: str | None = None  # errorClassOnException of the terminated event
    causes: tuple[tuple[str, str], ...] = ()
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Classification:
    """`where` is FILE:LINE in the user's project."""

    slug: str
    kind: str  # FailureKind
    retries: int | None  # of kind retry-then-human
    what: str
    why: str
    fix: str
    where: str | None
    fingerprint: str


def classify(failure: FailureText) -> Classification:
    traced = stack_trace.read(failure.trace or "")
    causes = [
        p for name, message in failure.causes for p in stack_trace.read(f"{name}: {message or ''}")
    ]
    deepest_first = [_locate(p, traced) for p in causes[::-1]] + traced[::-1]
    if not failure.error_class and not deepest_first:
        return _verdict(queries.VANISHED, TracePart("", ""), [])
    entry, part = _find(_find_by_class(failure.error_class, deepest_first), deepest_first)
    if entry is queries.UNKNOWN:
        part = _most_specific(deepest_first) or part
    elif entry.slug == "python-function-failed":
        part = next((p for p in deepest_first if _is_user_code(p)), part)
    return _verdict(entry, part, deepest_first)


def _locate(part: TracePart, traced: Sequence[TracePart]) -> TracePart:
    """Takes the place of a cause from the trace: a cause is only a class and a message."""
    if part.python:
        return part
    name = part.type.removeprefix("builtins.")
    same = (p for p in traced if p.python and p.type == name and p.message == part.message)
    return next(same, part)


def _find_by_class(error_class: str | None, deepest_first: Sequence[TracePart]) -> list[TracePart]:
    """The deepest part that names the event's class; if none does, the class alone."""
    if not error_class:
        return []
    mark = f"[{error_class}]"
    return [next((p for p in deepest_first if mark in p.message), TracePart("", mark))]


def _find(
    of_class: Sequence[TracePart], deepest_first: Sequence[TracePart]
) -> tuple[CatalogueEntry, TracePart]:
    every = [*of_class, *deepest_first]
    for look in (_match_entry, _match_hint):
        for part in every:
            if entry := look(part):
                return entry, part
    own = next((p for p in deepest_first if _is_user_code(p)), None)
    return (code.USER_CODE, own) if own else (queries.UNKNOWN, every[0])


def _is_user_code(part: TracePart) -> bool:
    return part.python and part.frame is not None and not _BRIDGE.match(part.type)


def _match_entry(part: TracePart) -> CatalogueEntry | None:
    by_condition = _by_condition(part)
    if by_condition is not None and by_condition.kind is FailureKind.DATA:
        return by_condition  # its message quotes a row's values, which may contain any text
    text = _searchable_text(part)
    for entry, patterns, _ in _compile_entries():
        if any(p.search(text) for p in patterns):
            return entry
    return by_condition


def _by_condition(part: TracePart) -> CatalogueEntry | None:
    """The entry with the longest condition that matches one in the message."""
    matches = [
        (wanted, entry)
        for condition in _CONDITION.findall(part.message)
        for entry in search_order.ENTRIES
        for wanted in entry.conditions
        if _covers(wanted, condition)
    ]
    return max(matches, key=lambda match: len(match[0]))[1] if matches else None


def _searchable_text(part: TracePart) -> str:
    """Without quoted values: Python's errors in a user's function quote values of a row."""
    if _is_user_code(part) and part.type in ("ValueError", "KeyError", "TypeError"):
        return _QUOTED.sub("''", part.text)
    return part.text


def _match_hint(part: TracePart) -> CatalogueEntry | None:
    text = _searchable_text(part)
    return next(
        (e for e, _, hints in _compile_entries() if any(h.search(text) for h in hints)), None
    )


def _covers(wanted: str, condition: str) -> bool:
    if wanted.endswith(".*"):
        return condition == wanted[:-2] or condition.startswith(wanted[:-1])
    if wanted.endswith("*"):
        return condition.startswith(wanted[:-1])
    return condition == wanted


def _most_specific(deepest_first: Iterable[TracePart]) -> TracePart | None:
    """For an unknown failure: the deepest part that has a message and is not a wrapper."""
    wrapper = _wrapper_pattern()
    return next((p for p in deepest_first if p.message and not wrapper.search(p.message)), None)


def _verdict(
    entry: CatalogueEntry, part: TracePart, deepest_first: Sequence[TracePart]
) -> Classification:
    frame = part.frame or next((p.frame for p in deepest_first if p.frame), None)
    sites = (stack_trace.find_call_site(p.message) for p in deepest_first)
    identity = fingerprint.fingerprint(entry.slug, part.type, part.message, frame)
    names = _names(entry, part, deepest_first) | {"fingerprint": identity}
    return Classification(
        slug=entry.slug,
        kind=entry.kind.value,
        retries=entry.retries if entry.kind is FailureKind.RETRY_THEN_HUMAN else None,
        what=_fill(entry.what, names),
        why=_fill(entry.why, names),
        fix=_fill(entry.fix, names),
        where=f"{frame.file}:{frame.line}" if frame else next(filter(None, sites), None),
        fingerprint=identity,
    )


def _names(
    entry: CatalogueEntry, part: TracePart, deepest_first: Sequence[TracePart]
) -> dict[str, str]:
    """Values for the texts, from the matching part first, so that they belong together."""
    values: dict[str, str] = {}
    for text in (part.text, *(p.text for p in deepest_first)):
        for pattern in (*entry.patterns, *entry.names):
            match = re.search(pattern, text)
            for name, value in match.groupdict().items() if match else ():
                if value:
                    values.setdefault(name, value.strip())
    values |= {"type": _short(part), "message": _first_line(part, entry is not queries.UNKNOWN)}
    if entry is code.USER_CODE and (outer := _find_reraised(part, deepest_first)):
        values["outer"] = f"{_short(outer)}: {_first_line(outer, True)}"
    return values


def _find_reraised(part: TracePart, deepest_first: Sequence[TracePart]) -> TracePart | None:
    """The outermost exception of `raise … from …` in the user's code."""
    after = deepest_first[list(deepest_first).index(part) + 1 :]
    again = list(takewhile(_is_user_code, after))
    return again[-1] if again else None


def _short(part: TracePart) -> str:
    return re.split(r"[.$]", part.type)[-1].strip() or "Failure"


def _first_line(part: TracePart, is_known: bool) -> str:
    """Without the condition if the failure is known: the catalogue describes it then."""
    message = re.sub(r"\s*SQLSTATE: \w{5}", "", part.message).split("\n")[0].strip(" ;")
    if is_known:
        message = re.sub(r"^\[[A-Z0-9_.]+\] ", "", message)
    return message if len(message) <= MESSAGE_CHARS_MAX else message[: MESSAGE_CHARS_MAX - 1] + "…"


def _fill(text: str, names: dict[str, str]) -> str:
    """Not str.format: values come from outside and may contain braces."""
    text = _OPTIONAL.sub(lambda m: m[1] if names.get(m[2]) else "", text)
    return _FIELD.sub(lambda m: names.get(m[1], ""), text).strip() or names["type"]


@cache
def _compile_entries() -> tuple[
    tuple[CatalogueEntry, tuple[re.Pattern[str], ...], tuple[re.Pattern[str], ...]], ...
]:
    return tuple(
        (e, tuple(map(re.compile, e.patterns)), tuple(map(re.compile, e.hints)))
        for e in search_order.ENTRIES
    )


@cache
def _wrapper_pattern() -> re.Pattern[str]:
    named = (rf"\[{re.escape(name)}\]" for name in code.UNWRAP_CONDITIONS)
    return re.compile("|".join((*named, *code.UNWRAP_PATTERNS)))
