from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from headrace import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    out = io.StringIO()
    logs.configure(stream=out, pipeline="orders")
    yield out
    root.handlers[:] = before
    root.setLevel(level)


def test_what_a_line_is_about_stands_on_the_first_line_only(stream: io.StringIO) -> None:
    logging.getLogger("headrace.x").error("It failed.\n  fix: printf '%s'")

    first, second = stream.getvalue().splitlines()
    assert first.endswith("It failed.  [pipeline=orders]")
    assert second == "  fix: printf '%s'", "a command that people copy"
