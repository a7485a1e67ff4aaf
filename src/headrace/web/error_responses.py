"""Errors of the API: one shape, `{"error": {slug, what, why, where, fix}}`.

Headrace's own errors are shown in full. Any other error is logged under a number, and the response
has only that number: no traceback, path or version.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

from starlette.responses import JSONResponse

from headrace.errors import (
    ConfigError,
    ControlError,
    Error,
    NotifyError,
    Problems,
    SetupError,
    StoreError,
)

logger = logging.getLogger(__name__)

NOT_FOUND = {
    "unknown-name", "unknown-run", "unknown-quarantine", "unknown-table", "no-runs",
    "unknown-alert", "unknown-silence", "unknown-channel",
}  # fmt: skip
STATUS_BY_SLUG = {
    **dict.fromkeys(NOT_FOUND, 404),
    "no-login": 401,
    "bad-login": 401,
    "not-allowed": 403,
    "foreign-origin": 403,
    "bad-host": 400,
    "bad-silence": 400,
    "not-json": 415,
    "too-large": 413,
    "too-many": 429,
    "too-slow": 408,
    "no-such-page": 404,
    "wrong-method": 405,
}
_HEADERS = {
    "wrong-method": {"allow": "GET, HEAD, POST"},
    "too-slow": {"connection": "close"},  # the rest of the body may still arrive
}


def status_of(error: Error) -> int:
    if error.code in STATUS_BY_SLUG:
        return STATUS_BY_SLUG[error.code]
    if isinstance(error, StoreError | SetupError):
        return 503
    if isinstance(error, NotifyError):
        return 502
    return 409 if isinstance(error, ControlError) else 400


def body_of(error: Error) -> dict[str, Any]:
    if isinstance(error, Problems):
        first, *rest = error.problems
        return {"error": {**first.as_dict(), "more": [one.as_dict() for one in rest]}}
    return {"error": error.as_dict()}


def error_response(error: Error, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(
        body_of(error), status_of(error), {**_HEADERS.get(error.code, {}), **(headers or {})}
    )


def unexpected_error_response(exc: BaseException) -> JSONResponse:
    """A number for the client; the traceback for the log."""
    number = secrets.token_hex(4)
    logger.error("unexpected error %s", number, exc_info=exc)
    error = unexpected_error(
        "An unexpected error occurred.",
        why=f"The traceback is in the log; search for error {number}.",
        fix="Reload the page. If the error persists, see the log.",
    )
    return JSONResponse(body_of(error), 500)


def unexpected_error(what: str, why: str, fix: str) -> Error:
    return Error(what, why=why, where="web.log in the state folder", fix=fix, slug="unexpected")


def wrong_method() -> ConfigError:
    return ConfigError("Method not allowed.", slug="wrong-method")


def no_such_page() -> ConfigError:
    return ConfigError("Page not found.", fix="Go to the overview: /", slug="no-such-page")
