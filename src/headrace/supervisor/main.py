"""`python -m headrace.supervisor.main PROJECT [--profile NAME]`: the supervisor process.

The first SIGTERM or SIGINT (also from `systemctl stop`) drains all pipelines and ends; a second one
cuts their batches. After a SIGKILL the drivers keep running, and the next supervisor adopts them.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from headrace import config, logs
from headrace.errors import Error
from headrace.supervisor import process
from headrace.supervisor.loop import Supervisor


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    logs.configure(format=given.log_format)
    stop, cut = threading.Event(), threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        # Only sets a flag: a handler runs between any two instructions, perhaps inside SQLite.
        (cut if stop.is_set() else stop).set()

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, note)
    command = shlex.split(given.driver_command) if given.driver_command else process.DRIVER
    try:
        supervisor = Supervisor(given.project, given.profile, driver_command=command)
    except Error as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    try:
        supervisor.run(stop, cut)
    finally:
        supervisor.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headrace.supervisor.main", description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--profile", default=config.DEV)
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--driver-command", help="for tests: the command to run instead of a driver"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
