"""From the text of a failure to what it means: kind, plain words, fix, fingerprint. Pure.

Called by `driver` when a query fails and by `supervisor` for what a dead driver left behind; the
texts are redacted before (`redact`). What is known about failures is in `catalogue/`.

Order of reading: the error class of the terminated event; the causes, deepest first; the trace's
text, deepest first. Wrappers never end the search. Some classes are half wrappers ("task failed
while writing"): they count only where nothing inside is known (`Entry.hints`).

Invariant: always answers, never raises, and tells nothing that is not in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

from headrace.failures import fingerprint, pieces
from headrace.failures.catalogue import code, queries, table
from headrace.failures.entry import Entry, Kind
from headrace.failures.pieces import Piece

WORDS_CHARS_MAX = 400  # of a message in `what`, `why`, `fix`

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]{3,}(?:\.[A-Z0-9_]+)*)\]")
_QUOTED = re.compile(r"'[^'\n]*'")
_OPTIONAL = re.compile(r"\[([^\[\]{}]*\{(\w+)\}[^\[\]{}]*)\]")
_FIELD = re.compile(r"\{(\w+)\}")
_BRIDGE = re.compile(r"^py4j\.")


@dataclass(frozen=True, slots=True)
class FailureText:
    """`causes` are (class, message), the outermost first, as `getCause()` gives them."""

    error_class: str | None = None  # errorClassOnException of the terminated event
    causes: tuple[tuple[str, str], ...] = ()
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`where` is FILE:LINE in the user's code, as the user knows the file."""

    slug: str
    kind: str  # entry.Kind
    retries: int | None  # of kind retry-then-human
    what: str
    why: str
    fix: str
    where: str | None
    fingerprint: str


def classify(failure: FailureText) -> Verdict:
    traced = pieces.read(failure.trace or "")
    told = [p for name, said in failure.causes for p in pieces.read(f"{name}: {said or ''}")]
    deepest_first = [_placed(p, traced) for p in told[::-1]] + traced[::-1]
    if not failure.error_class and not deepest_first:
        return _verdict(queries.VANISHED, Piece("", ""), [])
    entry, piece = _find(_of_class(failure.error_class, deepest_first), deepest_first)
    if entry is queries.UNKNOWN:
        piece = _most_telling(deepest_first) or piece
    elif entry.slug == "python-function-failed":
        piece = next((p for p in deepest_first if _is_user_code(p)), piece)
    return _verdict(entry, piece, deepest_first)


def _placed(piece: Piece, traced: Sequence[Piece]) -> Piece:
    """A cause is a bare class and message; the trace knows where the same exception was raised."""
    if piece.python:
        return piece
    name = piece.type.removeprefix("builtins.")
    same = (p for p in traced if p.python and p.type == name and p.message == piece.message)
    return next(same, piece)


def _of_class(error_class: str | None, deepest_first: Sequence[Piece]) -> list[Piece]:
    """The deepest piece that carries the event's class; where no text does, the class by itself."""
    if not error_class:
        return []
    mark = f"[{error_class}]"
    return [next((p for p in deepest_first if mark in p.message), Piece("", mark))]


def _find(of_class: Sequence[Piece], deepest_first: Sequence[Piece]) -> tuple[Entry, Piece]:
    every = [*of_class, *deepest_first]
    for look in (_known, _hinted):
        for piece in every:
            if entry := look(piece):
                return entry, piece
    own = next((p for p in deepest_first if _is_user_code(p)), None)
    return (code.USER_CODE, own) if own else (queries.UNKNOWN, every[0])


def _is_user_code(piece: Piece) -> bool:
    return piece.python and piece.frame is not None and not _BRIDGE.match(piece.type)


def _known(piece: Piece) -> Entry | None:
    by_condition = _by_condition(piece)
    if by_condition is not None and by_condition.kind is Kind.DATA:
        return by_condition  # its message quotes a row's values, which may say anything
    text = _searched(piece)
    for entry, patterns, _ in _compiled():
        if any(p.search(text) for p in patterns):
            return entry
    return by_condition


def _by_condition(piece: Piece) -> Entry | None:
    """The entry of the longest condition that covers one of the piece's."""
    matches = [
        (len(wanted), entry)
        for condition in _CONDITION.findall(piece.message)
        for wanted, entry in _conditions()
        if _covers(wanted, condition)
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else None


def _searched(piece: Piece) -> str:
    """What patterns may look at. Python's own errors in a user's function quote a row's values."""
    if _is_user_code(piece) and piece.type in ("ValueError", "KeyError", "TypeError"):
        return _QUOTED.sub("''", piece.text)
    return piece.text


def _hinted(piece: Piece) -> Entry | None:
    text = _searched(piece)
    return next((e for e, _, hints in _compiled() if any(h.search(text) for h in hints)), None)


def _covers(wanted: str, condition: str) -> bool:
    if wanted.endswith(".*"):
        return condition == wanted[:-2] or condition.startswith(wanted[:-1])
    if wanted.endswith("*"):
        return condition.startswith(wanted[:-1])
    return condition == wanted


def _most_telling(deepest_first: Iterable[Piece]) -> Piece | None:
    """Of an unknown failure: the deepest piece that says something and is no wrapper."""
    return next((p for p in deepest_first if p.message and not _is_wrapper(p)), None)


def _is_wrapper(piece: Piece) -> bool:
    return any(p.search(piece.message) for p in _unwrapped())


def _verdict(entry: Entry, piece: Piece, deepest_first: Sequence[Piece]) -> Verdict:
    frame = piece.frame or next((p.frame for p in deepest_first if p.frame), None)
    names = _names(entry, piece, deepest_first)
    return Verdict(
        slug=entry.slug,
        kind=entry.kind.value,
        retries=entry.retries if entry.kind is Kind.RETRY_THEN_HUMAN else None,
        what=_fill(entry.what, names),
        why=_fill(entry.why, names),
        fix=_fill(entry.fix, names),
        where=f"{frame.file}:{frame.line}" if frame else _called_from(deepest_first),
        fingerprint=fingerprint.fingerprint(entry.slug, piece.type, piece.message, frame),
    )


def _called_from(deepest_first: Sequence[Piece]) -> str | None:
    return next((at for p in deepest_first if (at := pieces.called_from(p.message))), None)


def _names(entry: Entry, piece: Piece, deepest_first: Sequence[Piece]) -> dict[str, str]:
    """From the piece itself before the others, so that names of one failure stay together."""
    found: dict[str, str] = {}
    for text in (piece.text, *(p.text for p in deepest_first)):
        for match in _matches((*entry.patterns, *entry.names), text):
            for name, value in match.groupdict().items():
                if value and name not in found:
                    found[name] = value.strip()
    found |= {"type": _short(piece), "message": _first_line(piece, entry is not queries.UNKNOWN)}
    if entry is code.USER_CODE and (outer := _raised_again(piece, deepest_first)):
        found["outer"] = f"{_short(outer)}: {_first_line(outer, True)}"
    return found


def _raised_again(piece: Piece, deepest_first: Sequence[Piece]) -> Piece | None:
    """The last of `raise … from …`: what the code itself said about the piece."""
    after = deepest_first[list(deepest_first).index(piece) + 1 :]
    again = list(takewhile(_is_user_code, after))
    return again[-1] if again else None


def _short(piece: Piece) -> str:
    return re.split(r"[.$]", piece.type)[-1] if piece.type else "Failure"


def _first_line(piece: Piece, is_known: bool) -> str:
    """A known failure has words of its own; of an unknown one the condition is all there is."""
    message = re.sub(r"\s*SQLSTATE: \w{5}", "", piece.message).split("\n")[0].strip(" ;")
    if is_known:
        message = re.sub(r"^\[[A-Z0-9_.]+\] ", "", message)
    return message if len(message) <= WORDS_CHARS_MAX else message[: WORDS_CHARS_MAX - 1] + "…"


def _matches(patterns: Iterable[str], text: str) -> Iterator[re.Match[str]]:
    return (m for m in (re.search(p, text) for p in patterns) if m)


def _fill(words: str, names: dict[str, str]) -> str:
    """Not str.format: values come from outside and may hold braces."""
    words = _OPTIONAL.sub(lambda m: m[1] if names.get(m[2]) else "", words)
    return _FIELD.sub(lambda m: names.get(m[1], ""), words).strip() or names["type"]


@cache
def _compiled() -> tuple[
    tuple[Entry, tuple[re.Pattern[str], ...], tuple[re.Pattern[str], ...]], ...
]:
    return tuple(
        (e, tuple(map(re.compile, e.patterns)), tuple(map(re.compile, e.hints)))
        for e in table.ENTRIES
    )


@cache
def _conditions() -> tuple[tuple[str, Entry], ...]:
    return tuple((wanted, entry) for entry in table.ENTRIES for wanted in entry.conditions)


@cache
def _unwrapped() -> tuple[re.Pattern[str], ...]:
    named = (rf"\[{re.escape(name)}\]" for name in code.UNWRAP_CONDITIONS)
    return tuple(map(re.compile, (*named, *code.UNWRAP_PATTERNS)))
