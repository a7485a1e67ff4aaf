"""What was: a driver's output, its events, Spark's progress, kept versions. From files first.

What drivers tell comes from the runs' own files, so it is there without any store; what the
supervisor decided (restarts, kills, alerts) comes from the store and is put between by its time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from headrace.define import versions as kept
from headrace.errors import ConfigError, StoreError
from headrace.failures.redact import redact
from headrace.model.events import Event, Kind
from headrace.model.health import span
from headrace.project import reading, runs, tail
from headrace.project.workspace import Workspace, known_pipeline, known_query
from headrace.state import desired
from headrace.store import db
from headrace.store import events as recorded
from headrace.words import harmless

POLL_S = 0.25
LINES_MAX = 5_000  # of a run's end, to find its newest progress in
_QUIET = {Kind.PROGRESSED, Kind.IDLED, Kind.SAMPLED, Kind.THINNED}
# What both tell: the driver's is taken. Of a drain only one knows who wants it, so both are shown.
_TWIN = {Kind.EXITED: "run_ended"}
_QUIET_MARKS = tuple(f'"event":"{kind.value}"' for kind in _QUIET)


@dataclass(frozen=True, slots=True)
class LogLine:
    run: str
    text: str


def log_lines(
    work: Workspace, name: str, *, run: str | None, count: int, follow: bool
) -> Iterator[LogLine]:
    """The last lines, then new ones; following goes over to the next run when there is one."""
    pipeline, _ = known_query(work, name, reading.queries(work))
    current = run or _newest(work, pipeline)
    if run is not None and runs.read(work.places, run) is None:
        raise _no_run(work, pipeline, run)

    def told(lines: list[str]) -> Iterator[LogLine]:
        return (LogLine(current, printable(line, work.secrets)) for line in lines)

    lines, position = tail.last_lines(work.places.log(current), count)
    yield from told(lines)
    if not follow:
        return
    growing = tail.Tail(work.places.log(current), position)
    while True:
        yield from told(growing.lines())
        newest = current if run else _newest(work, pipeline)
        if newest != current:
            yield from told(growing.lines(whole=False))
            yield LogLine(newest, f"--- {newest} ---")
            current, growing = newest, tail.Tail(work.places.log(newest))
        time.sleep(POLL_S)


def printable(line: str, secrets: Collection[str]) -> str:
    """A driver's output for a terminal. Escapes go first: one inside a secret would hide it."""
    return redact(harmless(line), secrets)


def _newest(work: Workspace, pipeline: str) -> str:
    found = runs.newest(work.places, pipeline)
    if found is None:
        raise ConfigError(
            f'"{pipeline}" has not run yet, so it has left nothing to read.',
            fix=f"headrace run {pipeline}, or headrace up {pipeline}",
            slug="no-runs",
        )
    return found.name


def _no_run(work: Workspace, pipeline: str, run: str) -> ConfigError:
    known = [found.name for found in islice(runs.backwards(work.places, pipeline), 10)]
    return ConfigError(
        f'"{pipeline}" has no run "{run}".',
        why=f"Its last runs are: {', '.join(known)}." if known else "It has not run yet.",
        fix=f"headrace logs {pipeline} shows the newest",
        slug="unknown-run",
    )


@dataclass(frozen=True, slots=True)
class Decided:
    """What the supervisor did, in its own words."""

    at: float
    run: str | None
    kind: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "event": self.kind,
            "query": None,
            "run": self.run,
            "text": self.text,
        }

    def in_words(self) -> str:
        at = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return f"{at} {self.kind.replace('_', ' ')}: {self.text}"


@dataclass(frozen=True, slots=True)
class Told:
    """An event with the run it belongs to."""

    run: str
    event: Event

    @property
    def at(self) -> float:
        return self.event.at

    def to_json(self) -> dict[str, Any]:
        event = self.event
        body = {"at": event.at, "event": event.kind.value, "query": event.query, "run": self.run}
        return {**event.data, **body}

    def in_words(self) -> str:
        at = datetime.fromtimestamp(self.event.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        query = f" {self.event.query}:" if self.event.query else ""
        return f"{at}{query} {event_words(self.event)}"


def events(
    work: Workspace, name: str, *, count: int, every: bool, follow: bool
) -> Iterator[Told | Decided]:
    """The last events over the runs of a pipeline (or of one query), then new ones."""
    pipeline, query = known_query(work, name, reading.queries(work))
    current = _newest(work, pipeline)
    told: list[Told] = []
    growing = tail.Tail(work.places.events(current))
    for run in (found.name for found in runs.backwards(work.places, pipeline)):
        source = growing if run == current else tail.Tail(work.places.events(run))
        told = [*wanted(run, _drain(source), query, every), *told]
        if len(told) >= count:
            break
    decided, seen = _decided(work, pipeline, 0) if query is None else ([], 0)
    yield from _by_time(told, decided)[-count:] if count > 0 else ()
    while follow:
        fresh = wanted(current, growing.lines(), query, every)
        newest = _newest(work, pipeline)
        if newest != current:
            fresh += wanted(current, _drain(growing), query, every)
            current, growing = newest, tail.Tail(work.places.events(newest))
        if query is None:
            decided, seen = _decided(work, pipeline, seen)
        yield from _by_time(fresh, decided)
        time.sleep(POLL_S)


def _decided(work: Workspace, pipeline: str, after: int) -> tuple[list[Decided], int]:
    """The supervisor's own events since `after`; none where there is no store to ask."""
    try:
        store = db.open_readonly(work.places.history)
    except StoreError:
        return [], after
    with contextlib.closing(store):
        found = recorded.recent(store, pipeline, recorded.LIMIT_MAX, after)
    last = found[-1].id if found else after
    return [Decided(one.at, one.run, one.kind, one.text) for one in found], last


def _by_time(told: Sequence[Told], decided: Sequence[Decided]) -> list[Told | Decided]:
    """Without what a driver told itself already: how it ended."""
    by_driver = {(item.run, _TWIN[item.event.kind]) for item in told if item.event.kind in _TWIN}
    rest = [one for one in decided if (one.run, one.kind) not in by_driver]
    both: list[Told | Decided] = [*told, *rest]
    return sorted(both, key=lambda item: item.at)


def _drain(source: tail.Tail) -> Iterator[str]:
    while lines := source.lines():
        yield from lines


def wanted(
    run: str, lines: Iterator[str] | Sequence[str], query: str | None, every: bool
) -> list[Told]:
    found = []
    for line in lines:
        if not every and any(mark in line[:80] for mark in _QUIET_MARKS):
            continue  # nearly all lines: not worth parsing
        with contextlib.suppress(ValueError):  # a torn line: its writer was killed in the middle
            event = Event.from_line(line)
            if (every or event.kind not in _QUIET) and (not query or event.query == query):
                found.append(Told(run, event))
    return found


def event_words(event: Event) -> str:
    """One short line for a person; programs take --json."""
    data = event.data
    if event.kind is Kind.RUN_STARTED:
        return f"run started, pid {data.get('pid')}, Spark {data.get('spark_version')}"
    if event.kind is Kind.DEFINED:
        return f"defined: {', '.join(map(str, data.get('queries', ())))}"
    if event.kind is Kind.QUERY_STARTED:
        note = f" ({data['note']})" if data.get("note") else ""
        return f"started, {data.get('guarantee') or 'no guarantee known'}{note}"
    if event.kind is Kind.QUERY_TERMINATED:
        error = str(data.get("error") or "").partition("\n")[0]
        return f"failed: {error}" if error else "ended"
    if event.kind is Kind.SCRIPT_ENDED:
        left = ", ".join(map(str, data.get("queries", ())))
        return f"the script has ended; Headrace keeps its queries running: {left}"
    if event.kind is Kind.DRAIN_STARTED:
        return (
            f"draining, up to {data.get('deadline_s')} s: {data.get('reason') or 'asked to stop'}"
        )
    if event.kind is Kind.QUERY_STOPPED:
        return f"stopped ({data.get('how')}) at batch {data.get('batch')}"
    if event.kind is Kind.EXITED:
        error = (data.get("error") or {}).get("what") or ""
        return f"run ended: {data.get('ending')}" + (f": {error}" if error else "")
    if event.kind is Kind.OUTAGE_BEGAN:
        return f"its source does not answer: {data.get('error')}"
    if event.kind is Kind.OUTAGE_ENDED:
        words = "its source answers again" if data.get("is_answered") else "the run ends first"
        return f"{words}, after {span(float(data.get('for_s') or 0))}"
    if event.kind is Kind.INPUTS_CHANGED:
        return _input_words(data)
    if event.kind is Kind.PROGRESSED:
        progress = data.get("progress") or {}
        words = f"batch {progress.get('batchId')}: {progress.get('numInputRows')} rows"
        age = (data.get("fresh") or {}).get("p50_ms")
        return words if age is None else f"{words}, half of them within {span(age / 1000)}"
    return event.kind.value


def _input_words(data: Mapping[str, Any]) -> str:
    words = [
        f"{data[kind]} input file{'s' * (data[kind] != 1)} {how}: "
        + ", ".join(map(str, data.get(f"{kind}_files") or ()))
        for kind, how in (
            ("vanished", "vanished unread"),
            ("rewritten", "changed after being listed"),
        )
        if data.get(kind)
    ]
    return f"batch {data.get('batch')}: {'; '.join(words)}"


def progress(work: Workspace, name: str, count: int) -> list[dict[str, Any]]:
    """Spark's own progress objects of each query, the newest `count`, oldest first."""
    pipeline, query = known_query(work, name, reading.queries(work))
    newest: dict[str, list[dict[str, Any]]] = {}
    for run in (found.name for found in runs.backwards(work.places, pipeline)):
        lines, _ = tail.last_lines(work.places.events(run), LINES_MAX)
        told = wanted(run, lines, query, True)
        for item in reversed([t for t in told if t.event.kind is Kind.PROGRESSED]):
            taken = newest.setdefault(str(item.event.query), [])
            if len(taken) < count:
                taken.append(_progress(pipeline, item))
        if newest and all(len(taken) >= count for taken in newest.values()):
            break
    return [item for name in sorted(newest) for item in reversed(newest[name])]


def _progress(pipeline: str, told: Told) -> dict[str, Any]:
    event = told.event
    return {
        "pipeline": pipeline,
        "query": event.query,
        "run": told.run,
        "at": event.at,
        "progress": event.data.get("progress"),
        "fresh": event.data.get("fresh"),
    }


def versions(work: Workspace, name: str | None) -> list[dict[str, Any]]:
    """Kept versions, oldest first, with the pipelines that run each or could go back to it."""
    pipeline = known_pipeline(work, name.partition("/")[0]) if name else None
    own = desired.read(work.places, pipeline) if pipeline else None
    wanted = ([own] if own else []) if pipeline else desired.listed(work.places)
    found = []
    for item in kept.listed(work.places):
        version = item["version"]
        current = [d.pipeline for d in wanted if d.version == version]
        earlier = [d.pipeline for d in wanted if version in d.previous]
        if pipeline is None or current or earlier:
            found.append(
                {"version": version, "at": item["at"], "current": current, "earlier": earlier}
            )
    return found
