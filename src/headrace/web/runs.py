"""One run on the page: why it ended, its events, its output, and all of it as a zip.

The name of a run comes from the URL, so it is checked before it becomes a path. Invariant: reads
only, and only below the folder of runs; secrets are removed by value.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from starlette.responses import Response

from headrace.errors import ConfigError, Error
from headrace.failures.redaction import redact
from headrace.health import summary
from headrace.model.runs import Run, parse_run_name
from headrace.project import history, log_tail, run_end_text, runs, why
from headrace.project.workspace import resolve_pipeline
from headrace.state.event_file import EventFile
from headrace.store import db
from headrace.store import runs as stored
from headrace.web.visit import Visit

RUNS_MAX = 200
LINES = 500
LINES_MAX = 5_000
TRACE_BYTES = 200_000
BUNDLE_BYTES = 5 * 1024 * 1024  # the end of each file
EVENT_BYTES = 1 << 20  # the end of an events file
SEARCH_MAX = 200


def list_runs(visit: Visit) -> dict[str, Any]:
    """From the store, which keeps them longest; without it, from the runs' folders."""
    work = visit.site.workspace()
    name = resolve_pipeline(work, visit.path["pipeline"])
    ask = partial(stored.list_runs, pipeline=name, limit=RUNS_MAX)
    found = db.read(work.places.history, ask, is_optional=True)
    if found is None:
        found = list(islice(runs.backwards(work.places, name), RUNS_MAX))
    return {"runs": [run.to_json() for run in found]}


def run(visit: Visit) -> dict[str, Any]:
    found = _find_run(visit)
    ended = found.exit
    body = {
        "at": visit.now,
        "run": found.name,
        "pipeline": found.spec.pipeline,
        "spec": found.spec.to_json(),
        "pid": found.process.pid if found.process else None,
        "is_live": runs.is_live(found),
        "exit": ended.to_json() if ended else None,
        "headline": run_end_text.headline(found.spec.pipeline, ended),
        "query_lines": run_end_text.query_lines(ended),
        "failure": summary.failure(ended) if why.is_bad(ended) else None,
        "problems": [dict(problem) for problem in ended.problems] if ended else [],
        "trace": _trace(visit, ended.trace) if ended else None,
    }
    return visit.redacted(body)


def events(visit: Visit) -> dict[str, Any]:
    """As text, without heartbeats and progress: the last ones, or those after a position."""
    found = _find_run(visit)
    path = visit.site.places.events(found.name)
    is_first = "after" not in visit.query
    file = EventFile(path, log_tail.near_end(path, EVENT_BYTES) if is_first else _position(visit))
    items = [
        {"at": e.at, "kind": e.kind.value, "query": e.query, "text": history.event_words(e)}
        for e in file.events(history.NOTABLE, EVENT_BYTES)[-LINES_MAX:]
    ]
    return visit.redacted({"events": items, "position": file.position})


def log(visit: Visit) -> dict[str, Any]:
    """The last lines; with `after` the lines since then; with `search` those with the text."""
    found = _find_run(visit)
    path = visit.site.places.log(found.name)
    search = visit.query.get("search", "")[:SEARCH_MAX].lower()
    if "after" in visit.query:
        growing = log_tail.Tail(path, _position(visit))
        lines: list[str] = []
        while len(lines) < LINES_MAX and (more := growing.lines()):
            lines += more
        position = growing.whole_position
    elif search:
        lines, position = _search_log(path, search)
    else:
        lines, position = log_tail.last_lines(path, LINES)
    if search:
        lines = [line for line in lines if search in line.lower()]
    return visit.redacted({"lines": lines[-LINES_MAX:], "position": position})


def _search_log(path: Path, search: str) -> tuple[list[str], int]:
    """The matching lines of the whole file, the last LINES_MAX of them."""
    growing, found = log_tail.Tail(path), []
    while lines := growing.lines():
        found += [line for line in lines if search in line.lower()]
        found = found[-LINES_MAX:]
    return found, growing.whole_position


def bundle(visit: Visit) -> Response:
    """All files of the run as a zip, secrets removed."""
    found = _find_run(visit)
    places, name = visit.site.places, found.name
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        about = {"run": run(visit), "pipeline": visit.redacted(_status(visit, found))}
        archive.writestr(f"{name}/about.json", json.dumps(about, indent=2, default=str))
        for path in _files(places.run(name)):
            content = redact(_end_of(path, BUNDLE_BYTES), visit.site.secrets())
            archive.writestr(f"{name}/{path.name}", content)
    headers = {"content-disposition": f'attachment; filename="{name}.zip"'}
    return Response(buffer.getvalue(), media_type="application/zip", headers=headers)


def _status(visit: Visit, found: Run) -> dict[str, Any]:
    try:
        return why.explain(visit.site.workspace(), found.spec.pipeline).to_json()
    except Error as exc:
        return {"error": exc.as_dict()}


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
            yield path


def _end_of(path: Path, most: int) -> str:
    """Whole lines: half a secret at the cut would not be recognised."""
    with path.open("rb") as file:
        file.seek(log_tail.near_end(path, most))
        return file.read(most).decode("utf-8", "replace")


def _find_run(visit: Visit) -> Run:
    name, places = visit.path["run"], visit.site.places
    if "/" not in name and "\0" not in name and parse_run_name(name) is not None:
        is_ours = places.run(name).resolve().parent == places.runs.resolve()
        if is_ours and (found := runs.read(places, name)):
            return found
    raise ConfigError(
        f"Run {name[:100]!r} does not exist.",
        why="The pipeline's page also lists old runs whose folders have been removed.",
        fix="Choose another run on the pipeline's page.",
        slug="unknown-run",
    )


def _position(visit: Visit) -> int:
    return int(visit.number("after", 0, 0, 2**53))


def _trace(visit: Visit, path: str | None) -> str | None:
    """The end of the full trace, if the file is below the folder of runs."""
    place = Path(path or "")
    is_ours = visit.site.places.runs.resolve() in place.resolve().parents
    return _end_of(place, TRACE_BYTES) if path and is_ours and place.is_file() else None
