"""What the page shows of one run: its end explained, its events, its output, all in one bundle.

A run's name comes from the address, so it is looked up among the runs that there are, never put
into a path as it is. Invariant: reads only, below the runs' folder; secrets are removed by value.
"""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.responses import Response

from headrace.errors import ConfigError, Error
from headrace.failures.redact import redact
from headrace.model import glance
from headrace.model.runs import parse_run_name
from headrace.project import endings, records, runs, tail, why
from headrace.project.workspace import known_pipeline
from headrace.store import db
from headrace.store import runs as stored
from headrace.web.site import Visit

LINES = 500
LINES_MAX = 5_000
TRACE_BYTES = 200_000
BUNDLE_BYTES = 5 * 1024 * 1024  # of each file: its end
EVENT_BYTES = 1 << 20  # of an events file: its end
SEARCH_MAX = 200


def listed(visit: Visit) -> dict[str, Any]:
    """From the store, which remembers the longest; without it, from the folders that are left."""
    work = visit.site.work()
    name = known_pipeline(work, visit.path["pipeline"])
    try:
        with contextlib.closing(db.open_readonly(work.places.history)) as conn:
            return {"runs": [asdict(one) for one in stored.listed(conn, name, 200)]}
    except Error:
        found = list(runs.backwards(work.places, name))
        return {"runs": [_as_stored(one) for one in found[:200]]}


def _as_stored(one: runs.Run) -> dict[str, Any]:
    ended = one.exit
    return {
        "run": one.name,
        "pipeline": one.spec.pipeline,
        "version": one.spec.version,
        "profile": one.spec.profile,
        "attempt": one.spec.attempt,
        "started_at": one.spec.at,
        "ended_at": ended.at if ended else None,
        "ending": ended.ending if ended else None,
        "code": ended.code if ended else None,
        "exit": ended.to_json() if ended else {},
    }


def run(visit: Visit) -> dict[str, Any]:
    found = _found(visit)
    ended = found.exit
    body = {
        "at": visit.now,
        "run": found.name,
        "pipeline": found.spec.pipeline,
        "spec": found.spec.to_json(),
        "pid": found.process.pid if found.process else None,
        "is_live": runs.is_live(found),
        "exit": ended.to_json() if ended else None,
        "headline": endings.headline(found.spec.pipeline, ended),
        "query_lines": endings.query_lines(ended),
        "failure": glance.failure(ended) if why.is_bad(ended) else None,
        "problems": [dict(one) for one in ended.problems] if ended else [],
        "trace": _trace(visit, ended.trace) if ended else None,
    }
    return _redacted(visit, body)


def events(visit: Visit) -> dict[str, Any]:
    """In words, without those of every second: the last ones, or those after the position of an
    earlier answer."""
    found = _found(visit)
    path = visit.site.places.events(found.name)
    is_first = "after" not in visit.query
    growing = tail.Tail(path, tail.near_end(path, EVENT_BYTES) if is_first else _position(visit))
    lines = growing.lines()
    told = records.wanted(found.name, lines, None, every=False)
    items = [
        {"at": one.at, "kind": one.event.kind.value, "query": one.event.query,
         "text": records.event_words(one.event)}
        for one in told[-LINES_MAX:]
    ]  # fmt: skip
    return _redacted(visit, {"events": items, "position": growing.whole_position})


def log(visit: Visit) -> dict[str, Any]:
    """The last lines; with `after` what came since; with `search` those that hold the text."""
    found = _found(visit)
    path = visit.site.places.log(found.name)
    search = visit.query.get("search", "")[:SEARCH_MAX].lower()
    if "after" in visit.query:
        growing = tail.Tail(path, _position(visit))
        lines: list[str] = []
        while len(lines) < LINES_MAX and (more := growing.lines()):
            lines += more
        position = growing.whole_position
    elif search:
        lines, position = _searched(path, search)
    else:
        lines, position = tail.last_lines(path, LINES)
    if search:
        lines = [line for line in lines if search in line.lower()]
    return _redacted(visit, {"lines": lines[-LINES_MAX:], "position": position})


def _searched(path: Path, search: str) -> tuple[list[str], int]:
    """All of a long file, kept to what was looked for."""
    growing, found = tail.Tail(path), []
    while lines := growing.lines():
        found += [line for line in lines if search in line.lower()]
        found = found[-LINES_MAX:]
    return found, growing.whole_position


def bundle(visit: Visit) -> Response:
    """Everything that a person who was not there needs, as one file. Secrets are removed."""
    found = _found(visit)
    places, name = visit.site.places, found.name
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        about = {"run": run(visit), "pipeline": _status(visit, found)}
        archive.writestr(f"{name}/about.json", json.dumps(about, indent=2, default=str))
        for path in _files(places.run(name)):
            content = redact(_end_of(path, BUNDLE_BYTES), visit.site.secrets())
            archive.writestr(f"{name}/{path.name}", content)
    filename = f"{name}.zip"
    headers = {"content-disposition": f'attachment; filename="{filename}"'}
    return Response(buffer.getvalue(), media_type="application/zip", headers=headers)


def _status(visit: Visit, found: runs.Run) -> Any:
    try:
        body = why.explain(visit.site.work(), found.spec.pipeline).to_json()
    except Error as exc:
        body = {"error": exc.as_dict()}
    return _redacted(visit, body)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
            yield path


def _end_of(path: Path, most: int) -> str:
    """Whole lines: half a secret at the border would not be known as one."""
    with path.open("rb") as file:
        file.seek(tail.near_end(path, most))
        return file.read(most).decode("utf-8", "replace")


def _found(visit: Visit) -> runs.Run:
    """By its name, if that is a run's name at all."""
    name = visit.path["run"]
    places = visit.site.places
    is_plain = "/" not in name and "\0" not in name and parse_run_name(name) is not None
    folder = places.run(name) if is_plain else None
    if folder is None or folder.resolve().parent != places.runs.resolve():
        raise _unknown(name)
    found = runs.read(places, name)
    if found is None:
        raise _unknown(name)
    return found


def _unknown(name: str) -> ConfigError:
    return ConfigError(
        f"There is no run {name[:100]!r}.",
        why="Folders of old runs are removed after a while; what is known of them stays in the "
        "pipeline's list.",
        fix="look at the pipeline's page for its runs",
        slug="unknown-run",
    )


def _position(visit: Visit) -> int:
    return int(visit.number("after", 0, 0, 2**53))


def _trace(visit: Visit, path: str | None) -> str | None:
    """The end of the full trace, if it is where our traces are."""
    if path is None:
        return None
    place = Path(path)
    if visit.site.places.runs.resolve() not in place.resolve().parents or not place.is_file():
        return None
    return _end_of(place, TRACE_BYTES)


def _redacted(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Every text in it, also inside lists and objects."""
    secrets = visit.site.secrets()

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return redact(value, secrets)
        if isinstance(value, dict):
            return {key: clean(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [clean(one) for one in value]
        return value

    return {key: clean(value) for key, value in body.items()}
