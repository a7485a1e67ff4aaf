"""`python -m headrace.relay.main PROJECT [--profile NAME]`: what talks to the network.

Started by the supervisor where a pipeline reads a broker; ends when its standard input does, so
never outlives it. Whatever becomes of it, no pipeline notices.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
from pathlib import Path

from headrace import config, logs
from headrace.errors import Error
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay.alerting import Alerting
from headrace.relay.looking import Looking
from headrace.relay.metrics import Metrics
from headrace.relay.mirroring import Mirroring
from headrace.relay.saying import Saying
from headrace.state import lags

NICE = 5  # where cores are short, the pipelines come first
LOOK_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace.relay.main", description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--profile", default=config.DEV)
    given = parser.parse_args(arguments)
    logs.configure()
    os.nice(NICE)
    looking, alerting, mirroring = Looking(), Alerting(), Mirroring()
    metrics, saying = Metrics(), Saying()
    try:
        work = open_workspace(given.project, given.profile)
        trouble: list[str] = []
        while True:
            waiting = alerting.tick(work)
            unsent = metrics.tick(work)
            saying.tell([*look(work, looking, mirroring), *waiting, *unsent, *trouble])
            if _is_alone(LOOK_S):
                if not unsent:
                    metrics.tick(work)  # the last words of runs that have ended before us
                return 0
            work, trouble = _reopened(work)
    except Error as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    finally:
        alerting.close()
        looking.close()
        metrics.close()


def look(work: Workspace, looking: Looking, mirroring: Mirroring) -> list[str]:
    """What is wrong. The lag is written before a group is moved, so that it waits for nobody."""
    found = [mirroring.told(one) for one in looking.look(work)]
    problems = [text for one in found for text in (one.problem, one.group_problem) if text]
    try:
        lags.write(work.places, found)
    except OSError as exc:
        problems.append(f"lag.json cannot be written: {exc.strerror or exc}")
    mirroring.tick(work, found)
    return problems


def _reopened(work: Workspace) -> tuple[Workspace, list[str]]:
    """With the settings as they are now; those of before while the file is wrong."""
    try:
        return open_workspace(work.project, work.profile), []
    except Error as exc:
        return work, [f"headrace.toml is not read again: {exc.what}"]


def _is_alone(within_s: float) -> bool:
    """The supervisor holds the other end of stdin; it is gone when that ends."""
    ready, _, _ = select.select([sys.stdin], [], [], within_s)
    return bool(ready) and not os.read(sys.stdin.fileno(), 4096)


if __name__ == "__main__":
    sys.exit(main())
