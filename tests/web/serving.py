"""The page's own process, as the supervisor starts it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from cli.stage import Project
from headrace.jsonfile import read_json


@contextlib.contextmanager
def served(project: Project, command: tuple[str, ...] = ()) -> Iterator[str]:
    """The web process itself, with stdin as the supervisor would hold it. -> a link's address."""
    command = command or (sys.executable, "-m", "headrace.web.main", str(project.folder))
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while (told := read_json(project.places.web)) is None:
            assert process.poll() is None, "the page's process ended"
            assert time.monotonic() < deadline, "it does not listen"
            time.sleep(0.05)
        yield str(told["url"])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(15) == 0, "it ends with who holds the other end of its stdin"
