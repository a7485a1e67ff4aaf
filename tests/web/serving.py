"""The web process, started as the supervisor starts it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from cli.stage import Project
from headrace.json_file import read_json


@contextlib.contextmanager
def served(project: Project, command: tuple[str, ...] = ()) -> Iterator[str]:
    """A web process that ends with its stdin. Yields its URL."""
    command = command or (sys.executable, "-m", "headrace.web.main", str(project.folder))
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while (answer := read_json(project.places.web)) is None:
            assert process.poll() is None, "the web process ended"
            assert time.monotonic() < deadline, "it does not listen"
            time.sleep(0.05)
        yield str(answer["url"])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0, "it ends when its stdin is closed"
