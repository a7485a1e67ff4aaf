"""The HTML pages, login and logout, and static files."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import AsyncIterator, Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse

from headrace.project.workspace import resolve_pipeline
from headrace.state import api_keys
from headrace.web import auth, error_responses, html
from headrace.web.visit import Visit

STATIC = Path(__file__).parent / "static"
PLOTLY = "plotly.min.js"
PART_BYTES = 64 * 1024


def page(title: str, script: str) -> Callable[[Visit], Response]:
    """A page without names in its path."""
    return lambda visit: _page(visit, title, script)


def pipeline(visit: Visit) -> Response:
    name = resolve_pipeline(visit.site.workspace(), visit.path["pipeline"])
    return _page(visit, name, "pipeline", pipeline=name)


def page_of(name: str, script: str, kind: str = "") -> Callable[[Visit], Response]:
    """A page whose title is the value of `name` in its path, after its kind."""

    def show(visit: Visit) -> Response:
        title = f"{kind} {visit.path[name]}".strip()
        return _page(visit, title, script, **{name: visit.path[name]})

    return show


def _page(visit: Visit, title: str, script: str, **data: Any) -> Response:
    data = {**data, "who": visit.user.by, "role": visit.user.role}
    return html.page(title, script, data, visit.site.settings.name)


async def healthz(visit: Visit) -> dict[str, Any]:
    """Runs in the event loop, so it does not wait for a free thread."""
    return {"ok": True}


def login_page(visit: Visit) -> Response:
    return html.login()


def login(visit: Visit) -> Response:
    """With a key that was pasted, instead of a link that was opened."""
    secret = visit.text("token", 500) or ""
    session = auth.log_in(visit.site, secret.strip())
    if session is None:
        raise auth.wrong_key(visit.site, visit.caller)
    answer = JSONResponse({"ok": True, auth.PROOF: session.proof})
    auth.set_session(answer, visit.site.settings.web, session)
    return answer


def logout(visit: Visit) -> Response:
    api_keys.end_sessions(visit.site.places, visit.user.by)
    answer = JSONResponse({"ok": True})
    auth.end_session(answer, visit.site.settings.web)
    return answer


def static(visit: Visit) -> Response:
    """Files of this package by their bare name; plotly.js from the package that ships it."""
    path = _static(visit.path["file"])
    if path is None:
        return error_responses.error_response(error_responses.no_such_page())
    content, tag = _content(path)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    headers = {"cache-control": "no-cache", "etag": tag, "content-length": str(len(content))}
    return StreamingResponse(_parts(content), media_type=kind, headers=headers)


async def _parts(content: bytes) -> AsyncIterator[bytes]:
    """In parts: a client that does not read must not fill our memory."""
    for begin in range(0, len(content), PART_BYTES):
        yield content[begin : begin + PART_BYTES]


def _static(name: str) -> Path | None:
    if name == PLOTLY:
        spec = find_spec("plotly")
        return Path(spec.origin).parent / "package_data" / PLOTLY if spec and spec.origin else None
    return _files().get(name)


@cache
def _files() -> dict[str, Path]:
    """The only files that are served."""
    return {path.name: path for path in STATIC.iterdir() if path.is_file()}


@cache
def _content(path: Path) -> tuple[bytes, str]:
    content = path.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:16]}"'
