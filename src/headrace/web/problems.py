"""Errors as the API tells them: one shape, `{"error": {slug, what, why, where, fix}}`.

What is ours is told whole. Anything else is told by a number under which the log has it: no trace,
path or version for who has not earned it.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

from starlette.responses import JSONResponse

from headrace.errors import ConfigError, ControlError, Error, Problems, SetupError, StoreError

logger = logging.getLogger(__name__)

NOT_FOUND = {"unknown-name", "unknown-run", "unknown-quarantine", "unknown-table", "no-runs"}
STATUS_BY_SLUG = {
    **dict.fromkeys(NOT_FOUND, 404),
    "no-login": 401,
    "bad-login": 401,
    "not-allowed": 403,
    "foreign-origin": 403,
    "bad-host": 400,
    "not-json": 415,
    "too-large": 413,
    "too-many": 429,
    "too-slow": 408,
    "no-such-page": 404,
    "wrong-method": 405,
}


_HEADERS = {
    "wrong-method": {"allow": "GET, HEAD, POST"},
    "too-slow": {"connection": "close"},  # the rest of the body may come at any time
}


def status_of(error: Error) -> int:
    if error.code in STATUS_BY_SLUG:
        return STATUS_BY_SLUG[error.code]
    if isinstance(error, StoreError | SetupError):
        return 503
    return 409 if isinstance(error, ControlError) else 400


def body_of(error: Error) -> dict[str, Any]:
    if isinstance(error, Problems):
        first, *rest = error.problems
        return {"error": {**first.as_dict(), "more": [one.as_dict() for one in rest]}}
    return {"error": error.as_dict()}


def told(error: Error, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(
        body_of(error), status_of(error), {**_HEADERS.get(error.code, {}), **(headers or {})}
    )


def unexpected(exc: BaseException) -> JSONResponse:
    """For who asks, a number; for who runs it, the whole of it in the log."""
    number = secrets.token_hex(4)
    logger.error("error %s of a request", number, exc_info=exc)
    error = Error(
        "The page's process met an error that it does not know.",
        why=f"The log has it under {number}.",
        where="web.log in the state folder",
        fix="load the page again; if it stays so, look into that log",
        slug="unexpected",
    )
    return JSONResponse(body_of(error), 500)


def wrong_method() -> ConfigError:
    return ConfigError("That is not how this address is asked.", slug="wrong-method")


def no_such_page() -> ConfigError:
    return ConfigError("There is nothing at this address.", fix="begin at /", slug="no-such-page")
