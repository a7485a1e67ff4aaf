"""Describes how a run ended: which query stopped at which batch, clean or cut.

Pure: `Exit` in, text and an exit code out. Used by `run`, `stop`, `down`, `why`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.model.runs import Ending, Exit

_HOW = {
    "clean": "stopped cleanly after batch {batch}",
    "ended": "finished with batch {batch}",
    "cut": "CUT after batch {batch}; the next start repeats the batch that was running",
    "failed": "failed; its last committed batch is {batch}",
}

_WORDS = {
    Ending.FINISHED: "finished: all input has been processed",
    Ending.DRAINED: "drained: every query stopped at a batch boundary",
    Ending.CUT: "was cut: not every query reached a batch boundary in time",
    Ending.FAILED: "failed",
    Ending.REFUSED: "did not start",
    Ending.FENCED: "stopped: a newer run owns its checkpoint",
    Ending.VANISHED: "vanished: its process was killed, or the machine went down",
    Ending.STALLED: "was killed by the watchdog: it had data to process but made no progress",
}
_BEFORE_ANY_QUERY = {
    Ending.DRAINED: "stopped before any of its queries had started",
    Ending.CUT: "was cut before any of its queries had started",
}


def headline(pipeline: str, ended: Exit | None) -> str:
    if ended is None:
        return f"{pipeline} is still running"
    ending = _ending(ended)
    if ending in _BEFORE_ANY_QUERY and not ended.queries and not ended.error:
        # A killed driver leaves an error, and the state of its queries is unknown.
        return f"{pipeline} {_BEFORE_ANY_QUERY[ending]}"
    return f"{pipeline} {_WORDS[ending] if ending else ended.ending}"


def query_lines(ended: Exit | None) -> list[str]:
    """One line per query; empty if the run started no query."""
    return [f"{name}: {_query(fact)}" for name, fact in (ended.queries if ended else {}).items()]


def report(pipeline: str, ended: Exit | None) -> str:
    return "\n  ".join([headline(pipeline, ended), *query_lines(ended)])


def code_of(ended: Exit | None, *, needs_attention: bool, script: bool) -> int:
    """The exit code of `run`; see docs/reference/exit-codes.md."""
    if ended is None:
        return 4 if needs_attention else 1
    ending = _ending(ended)
    if ending in (Ending.FINISHED, Ending.DRAINED):
        return 0
    if ending is Ending.REFUSED and ended.code in (2, 3):
        return ended.code
    if needs_attention and not (script and ended.query is None):
        return 4
    return 1  # cut, or a script that failed by itself


def stop_code(ended: Exit | None) -> int:
    """The exit code of `stop` and `down`: 1 if a query was cut, or if that is unknown."""
    return 0 if ended and _ending(ended) in (Ending.DRAINED, Ending.FINISHED) else 1


def _ending(ended: Exit) -> Ending | None:
    return Ending(ended.ending) if ended.ending in set(Ending) else None


def _query(fact: Mapping[str, Any]) -> str:
    how, batch = str(fact.get("how")), fact.get("batch")
    if batch is None and how in ("clean", "ended"):
        return "stopped cleanly before its first batch"
    if batch is None and how == "cut":
        return "CUT in its first batch; the next start repeats that batch"
    if batch is None and how == "failed":
        return "failed in its first batch"
    return _HOW.get(how, "ended ({how}) at batch {batch}").format(how=how, batch=batch)
