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
    text = (
        _templates()
        .get_template("page.html")
        .render(title=title, script=script, data=data, project=project, version=__version__)
    )
    return HTMLResponse(text)


def problem(error: Error, status: int) -> HTMLResponse:
    """An error page, for people. It reveals nothing but the error."""
    text = _templates().get_template("problem.html").render(error=error.as_dict(), status=status)
    return HTMLResponse(text, status)


def login(problem: str = "") -> HTMLResponse:
    return HTMLResponse(_templates().get_template("login.html").render(problem=problem))
