"""Addresses that people open, the way in and out, and the API's own description."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import AsyncIterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse

from headrace.project.workspace import known_pipeline
from headrace.state import keys
from headrace.web import gate, problems, showing
from headrace.web.site import Visit

STATIC = Path(__file__).parent / "static"
PLOTLY = "plotly.min.js"
PART_BYTES = 64 * 1024


def overview(visit: Visit) -> Response:
    return _page(visit, "Overview", "overview")


def pipeline(visit: Visit) -> Response:
    name = known_pipeline(visit.site.work(), visit.path["pipeline"])
    return _page(visit, name, "pipeline", pipeline=name)


def run(visit: Visit) -> Response:
    return _page(visit, visit.path["run"], "run", run=visit.path["run"])


def live(visit: Visit) -> Response:
    return _page(visit, "Live results", "live")


def live_table(visit: Visit) -> Response:
    return _page(visit, visit.path["table"], "live", table=visit.path["table"])


def sql(visit: Visit) -> Response:
    return _page(visit, "SQL", "sql")


def quarantine(visit: Visit) -> Response:
    return _page(visit, "Quarantine", "quarantine")


def checkpoints(visit: Visit) -> Response:
    return _page(visit, "Checkpoints", "checkpoints")


def alerts(visit: Visit) -> Response:
    return _page(visit, "Alerts", "alerts")


def audit(visit: Visit) -> Response:
    return _page(visit, "Audit", "audit")


def _page(visit: Visit, title: str, script: str, **data: Any) -> Response:
    assert visit.who is not None  # noqa: S101 - the gate lets nobody else in
    data = {**data, "who": visit.who.by, "role": visit.who.role}
    return showing.page(title, script, data, visit.site.settings.name)


async def healthz(visit: Visit) -> dict[str, Any]:
    """In the event loop itself: it waits for no thread that others hold."""
    return {"ok": True}


def login_page(visit: Visit) -> Response:
    return showing.login()


def login(visit: Visit) -> Response:
    """A key that was typed or pasted, in place of a link that was opened."""
    secret = visit.text("token", 500) or ""
    session = gate.log_in(visit.site, secret.strip())
    if session is None:
        raise gate.wrong_key(visit.site, visit.caller)
    answer = JSONResponse({"ok": True, gate.PROOF: session.proof})
    gate.set_session(answer, visit.site.settings.web, session)
    return answer


def logout(visit: Visit) -> Response:
    assert visit.who is not None  # noqa: S101 - the gate lets nobody else in
    keys.end_sessions(visit.site.places, visit.who.by)
    answer = JSONResponse({"ok": True})
    gate.end_session(answer, visit.site.settings.web)
    return answer


def static(visit: Visit) -> Response:
    """Files of this package by their bare name; plotly.js from the package that ships it."""
    path = _static(visit.path["file"])
    if path is None:
        return problems.told(problems.no_such_page())
    content, tag = _content(path)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    headers = {"cache-control": "no-cache", "etag": tag, "content-length": str(len(content))}
    return StreamingResponse(_parts(content), media_type=kind, headers=headers)


async def _parts(content: bytes) -> AsyncIterator[bytes]:
    """A few at a time: who does not read them must not fill our memory."""
    for begin in range(0, len(content), PART_BYTES):
        yield content[begin : begin + PART_BYTES]


def _static(name: str) -> Path | None:
    if name == PLOTLY:
        spec = find_spec("plotly")
        return Path(spec.origin).parent / "package_data" / PLOTLY if spec and spec.origin else None
    return _files().get(name)


@cache
def _files() -> dict[str, Path]:
    """All there is to have: a name that is not among them leads nowhere."""
    return {path.name: path for path in STATIC.iterdir() if path.is_file()}


@cache
def _content(path: Path) -> tuple[bytes, str]:
    content = path.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:16]}"'
