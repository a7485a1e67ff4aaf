"""`python -m headrace.relay.main PROJECT [--profile NAME]`: the relay.

Started by the supervisor if a pipeline reads a broker. It ends when its standard input closes, so
it never outlives the supervisor. It never affects a pipeline.
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
from headrace.relay.alert_topics import AlertTopics
from headrace.relay.consumer_groups import GroupMirror
from headrace.relay.kafka_metrics import KafkaMetrics
from headrace.relay.lag import LagMonitor
from headrace.relay.problem_log import ProblemLog
from headrace.state import lag

NICE = 5  # pipelines come first
LOOK_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace.relay.main", description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--profile", default=config.DEV)
    given = parser.parse_args(arguments)
    logs.configure()
    os.nice(NICE)
    looking, alerting, mirroring = LagMonitor(), AlertTopics(), GroupMirror()
    metrics, saying = KafkaMetrics(), ProblemLog()
    try:
        work = open_workspace(given.project, given.profile)
        trouble: list[str] = []
        while True:
            waiting = alerting.tick(work)
            unsent = metrics.tick(work)
            saying.tell([*look(work, looking, mirroring), *waiting, *unsent, *trouble])
            if _is_alone(LOOK_S):
                if not unsent:
                    metrics.tick(work)  # the last events of runs that have ended
                return 0
            work, trouble = _reload_workspace(work)
    except Error as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    finally:
        alerting.close()
        looking.close()
        metrics.close()


def look(work: Workspace, looking: LagMonitor, mirroring: GroupMirror) -> list[str]:
    """The problems. The lag is written before groups are moved, which may take time."""
    found = [mirroring.with_group(one) for one in looking.look(work)]
    problems = [text for one in found for text in (one.problem, one.group_problem) if text]
    try:
        lag.write(work.places, found)
    except OSError as exc:
        problems.append(f"lag.json cannot be written: {exc.strerror or exc}")
    mirroring.tick(work, found)
    return problems


def _reload_workspace(work: Workspace) -> tuple[Workspace, list[str]]:
    """With the current settings; with the last valid ones while the file is invalid."""
    try:
        return open_workspace(work.project, work.profile), []
    except Error as exc:
        return work, [f"headrace.toml is not read again: {exc.what}"]


def _is_alone(within_s: float) -> bool:
    """The supervisor has ended: it held the other end of stdin."""
    ready, _, _ = select.select([sys.stdin], [], [], within_s)
    return bool(ready) and not os.read(sys.stdin.fileno(), 4096)


if __name__ == "__main__":
    sys.exit(main())
