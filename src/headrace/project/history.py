"""History of a pipeline: output of its drivers, events, progress, versions.

Drivers' events come from the runs' files, so no store is needed. Events of the supervisor
(restarts, kills, alerts) come from the store and are merged by time.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from headrace.define import deployed_code as kept
from headrace.errors import ConfigError
from headrace.failures.redaction import redact
from headrace.model.events import Event, EventKind
from headrace.model.times import clock, span
from headrace.printable_text import printable
from headrace.project import log_tail, runs, status
from headrace.project.workspace import Workspace, resolve_pipeline, resolve_query
from headrace.state import desired
from headrace.state.event_file import EventFile, last_events
from headrace.store import db
from headrace.store import events as recorded

POLL_S = 0.25
LINES_MAX = 5_000  # of a run's end, to find its newest progress in
_FREQUENT = {EventKind.PROGRESSED, EventKind.IDLED, EventKind.SAMPLED, EventKind.THINNED}
NOTABLE = frozenset(EventKind) - _FREQUENT
_PROGRESSED = frozenset({EventKind.PROGRESSED})


@dataclass(frozen=True, slots=True)
class LogLine:
    run: str
    text: str


def log_lines(
    work: Workspace, name: str, *, run: str | None, count: int, follow: bool
) -> Iterator[LogLine]:
    """The last lines, then new ones. Following continues with the next run."""
    pipeline, _ = resolve_query(work, name, status.queries(work))
    current = run or _newest(work, pipeline)
    if run is not None and runs.read(work.places, run) is None:
        raise _no_run(work, pipeline, run)

    def safe(lines: list[str]) -> Iterator[LogLine]:
        return (LogLine(current, safe_line(line, work.secrets)) for line in lines)

    lines, position = log_tail.last_lines(work.places.log(current), count)
    yield from safe(lines)
    if not follow:
        return
    growing = log_tail.Tail(work.places.log(current), position)
    while True:
        yield from safe(growing.lines())
        newest = current if run else _newest(work, pipeline)
        if newest != current:
            yield from safe(growing.lines(whole=False))
            yield LogLine(newest, f"--- {newest} ---")
            current, growing = newest, log_tail.Tail(work.places.log(newest))
        time.sleep(POLL_S)


def safe_line(line: str, secrets: Collection[str]) -> str:
    """A driver's output for a terminal. Escapes are removed first: one could split a secret."""
    return redact(printable(line), secrets)


def _newest(work: Workspace, pipeline: str) -> str:
    found = runs.newest(work.places, pipeline)
    if found is None:
        raise ConfigError(
            f'"{pipeline}" has not run yet, so there is nothing to show.',
            fix=f"Start it with headrace run {pipeline} or headrace up {pipeline}.",
            slug="no-runs",
        )
    return found.name


def _no_run(work: Workspace, pipeline: str, run: str) -> ConfigError:
    known = [found.name for found in islice(runs.backwards(work.places, pipeline), 10)]
    return ConfigError(
        f'"{pipeline}" has no run "{run}".',
        why=f"Its latest runs are: {', '.join(known)}." if known else "It has not run yet.",
        fix=f"Show the latest run: headrace logs {pipeline}"
        if known
        else f"Start it with headrace run {pipeline} or headrace up {pipeline}.",
        slug="unknown-run",
    )


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """An event of a driver, or with `text` one of the supervisor."""

    at: float
    run: str | None
    kind: str
    event: Event | None = None
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        query = self.event.query if self.event else None
        body = {"at": self.at, "event": self.kind, "query": query, "run": self.run}
        return {**self.event.data, **body} if self.event else {**body, "text": self.text}

    def in_words(self) -> str:
        if self.event is None:
            return f"{clock(self.at)} {self.kind.replace('_', ' ')}: {self.text}"
        query = f" {self.event.query}:" if self.event.query else ""
        return f"{clock(self.at)}{query} {event_words(self.event)}"


def events(
    work: Workspace, name: str, *, count: int, every: bool, follow: bool
) -> Iterator[HistoryEvent]:
    """The last events over the runs of a pipeline (or of one query), then new ones."""
    pipeline, query = resolve_query(work, name, status.queries(work))
    current = _newest(work, pipeline)
    kinds = None if every else NOTABLE

    def read(run: str, file: EventFile) -> list[HistoryEvent]:
        return [
            HistoryEvent(e.at, run, e.kind.value, e)
            for e in file.remaining(kinds)
            if not query or e.query == query
        ]

    growing = EventFile(work.places.events(current))
    reported: list[HistoryEvent] = []
    for run in (found.name for found in runs.backwards(work.places, pipeline)):
        file = growing if run == current else EventFile(work.places.events(run))
        reported = [*read(run, file), *reported]
        if len(reported) >= count:
            break
    decided, seen = _read_decisions(work, pipeline, 0) if query is None else ([], 0)
    yield from _by_time(reported, decided)[-count:] if count > 0 else ()
    while follow:
        fresh = read(current, growing)
        newest = _newest(work, pipeline)
        if newest != current:
            fresh += read(current, growing)
            current, growing = newest, EventFile(work.places.events(newest))
        if query is None:
            decided, seen = _read_decisions(work, pipeline, seen)
        yield from _by_time(fresh, decided)
        time.sleep(POLL_S)


def _read_decisions(work: Workspace, pipeline: str, after: int) -> tuple[list[HistoryEvent], int]:
    """The supervisor's own events since `after`, and the id of the last one."""

    ask = partial(recorded.recent, pipeline=pipeline, limit=recorded.LIMIT_MAX, after=after)
    found = db.read(work.places.history, ask, is_optional=True) or []
    events = [HistoryEvent(e.at, e.run, e.kind, text=e.text) for e in found]
    return events, found[-1].id if found else after


def _by_time(
    reported: Sequence[HistoryEvent], decided: Sequence[HistoryEvent]
) -> list[HistoryEvent]:
    """Without the end of a run that its driver has reported itself. Both events of a drain are
    kept, since only one has the reason."""
    exited = {item.run for item in reported if item.kind == EventKind.EXITED}
    rest = [item for item in decided if item.kind != "run_ended" or item.run not in exited]
    return sorted([*reported, *rest], key=lambda item: item.at)


def event_words(event: Event) -> str:
    """One short line for a person."""
    data = event.data
    if event.kind is EventKind.RUN_STARTED:
        return f"run started, pid {data.get('pid')}, Spark {data.get('spark_version')}"
    if event.kind is EventKind.DEFINED:
        return f"defined: {', '.join(map(str, data.get('queries', ())))}"
    if event.kind is EventKind.QUERY_STARTED:
        note = f" ({data['note']})" if data.get("note") else ""
        return f"started, {data.get('guarantee') or 'guarantee unknown'}{note}"
    if event.kind is EventKind.QUERY_TERMINATED:
        error = str(data.get("error") or "").partition("\n")[0]
        return f"failed: {error}" if error else "ended"
    if event.kind is EventKind.SCRIPT_ENDED:
        left = ", ".join(map(str, data.get("queries", ())))
        return f"the script has finished; Headrace keeps its queries running: {left}"
    if event.kind is EventKind.DRAIN_STARTED:
        return (
            f"draining, up to {data.get('deadline_s')} s: {data.get('reason') or 'asked to stop'}"
        )
    if event.kind is EventKind.QUERY_STOPPED:
        return f"stopped ({data.get('how')}) at batch {data.get('batch')}"
    if event.kind is EventKind.EXITED:
        error = (data.get("error") or {}).get("what") or ""
        if data.get("failure") == "unknown":
            error += f" (not in the catalogue, fingerprint {data.get('fingerprint')})"
        return f"run ended: {data.get('ending')}" + (f": {error}" if error else "")
    if event.kind is EventKind.OUTAGE_BEGAN:
        return f"its source is not responding: {data.get('error')}"
    if event.kind is EventKind.OUTAGE_ENDED:
        words = "its source is responding again"
        if not data.get("is_answered"):
            words = "the run ended before its source responded again"
        return f"{words}, after {span(float(data.get('for_s') or 0))}"
    if event.kind is EventKind.INPUTS_CHANGED:
        return _input_words(data)
    if event.kind is EventKind.PROGRESSED:
        batch = event.progress
        words = f"batch {batch.batch}: {batch.rows_in} rows" if batch else "a batch"
        age = (data.get("fresh") or {}).get("p50_ms")
        return (
            words if age is None else f"{words}, half of them processed within {span(age / 1000)}"
        )
    return event.kind.value


def _input_words(data: Mapping[str, Any]) -> str:
    words = [
        f"{data[kind]} input file{'s' * (data[kind] != 1)} {how}: "
        + ", ".join(map(str, data.get(f"{kind}_files") or ()))
        for kind, how in (
            ("vanished", "vanished before being read"),
            ("rewritten", "changed after being listed"),
        )
        if data.get(kind)
    ]
    return f"batch {data.get('batch')}: {'; '.join(words)}"


def progress(work: Workspace, name: str, count: int) -> list[dict[str, Any]]:
    """Spark's own progress objects of each query, the newest `count`, oldest first."""
    pipeline, query = resolve_query(work, name, status.queries(work))
    newest: dict[str, list[dict[str, Any]]] = {}
    for run in (found.name for found in runs.backwards(work.places, pipeline)):
        for event in reversed(last_events(work.places.events(run), LINES_MAX, _PROGRESSED)):
            taken = newest.setdefault(str(event.query), [])
            if len(taken) < count and query in (None, event.query):
                taken.append(_progress(pipeline, run, event))
        if newest and all(len(taken) >= count for taken in newest.values()):
            break
    return [item for name in sorted(newest) for item in reversed(newest[name])]


def _progress(pipeline: str, run: str, event: Event) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "query": event.query,
        "run": run,
        "at": event.at,
        "progress": event.data.get("progress"),
        "fresh": event.data.get("fresh"),
    }


def versions(work: Workspace, name: str | None) -> list[dict[str, Any]]:
    """Kept versions, oldest first, with the pipelines that run them or can go back to them."""
    pipeline = resolve_pipeline(work, name.partition("/")[0]) if name else None
    own = desired.read(work.places, pipeline) if pipeline else None
    wanted = ([own] if own else []) if pipeline else desired.read_all(work.places)
    found = []
    for item in kept.list_versions(work.places):
        version = item["version"]
        current = [d.pipeline for d in wanted if d.version == version]
        earlier = [d.pipeline for d in wanted if version in d.previous]
        if pipeline is None or current or earlier:
            found.append(
                {"version": version, "at": item["at"], "current": current, "earlier": earlier}
            )
    return found
