"""HTML templates, with every value escaped. A page itself contains no data: its script reads the
API, so a page and a program see the same."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from headrace import __version__
from headrace.errors import Error
from headrace.web.error_responses import status_of

HERE = Path(__file__).parent


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(title: str, script: str, data: dict[str, Any], project: str) -> HTMLResponse:
    """`script` is the JavaScript module of the page; `data` are the names in its path."""
    names = {"title": title, "script": script, "data": data, "project": project}
    return HTMLResponse(_render("page.html", **names, version=__version__))


def problem(error: Error) -> HTMLResponse:
    """An error page, for people. It reveals nothing but the error."""
    status = status_of(error)
    return HTMLResponse(_render("problem.html", error=error.as_dict(), status=status), status)


def login() -> HTMLResponse:
    return HTMLResponse(_render("login.html"))


def _render(template: str, **values: Any) -> str:
    return _templates().get_template(template).render(**values)
