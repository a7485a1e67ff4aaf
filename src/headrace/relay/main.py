"""`python -m headrace.relay.main PROJECT [--profile NAME]`: the relay.

Started by the supervisor if a channel is set, metrics are exported or a pipeline uses a broker. It
ends when its standard input closes, so it never outlives the supervisor. It never affects a
pipeline.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import select
import sys
from collections.abc import Iterable
from pathlib import Path

from headrace import config, logs
from headrace.errors import Error
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay.alert_topics import AlertTopics
from headrace.relay.channels import Channels
from headrace.relay.consumer_groups import GroupMirror
from headrace.relay.lag import LagMonitor
from headrace.relay.metrics_topic import KafkaMetrics
from headrace.relay.sql_rules import SqlRules
from headrace.state import lag

NICE = 5  # pipelines come first
MEASURE_S = 5.0
_VARIES = re.compile(r"\([^)]*\)")  # times and counts in a client's message

logger = logging.getLogger("headrace.relay")  # __name__ would be __main__


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace.relay.main", description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--profile", default=config.DEV)
    given = parser.parse_args(arguments)
    logs.configure()
    os.nice(NICE)
    monitor, topics, mirror = LagMonitor(), AlertTopics(), GroupMirror()
    metrics, channels, log = KafkaMetrics(), Channels(), ProblemLog()
    sql_rules = SqlRules()
    try:
        work = open_workspace(given.project, given.profile)
        of_settings: list[str] = []
        while True:
            of_channels = channels.tick(work)
            of_topics = topics.tick(work)
            of_metrics = metrics.tick(work)
            of_rules = sql_rules.tick(work)
            of_lag = measure(work, monitor, mirror)
            log.report([*of_lag, *of_topics, *of_channels, *of_metrics, *of_rules, *of_settings])
            if _has_supervisor_ended(MEASURE_S):
                if not of_metrics:
                    metrics.tick(work)  # the last events of runs that have ended
                return 0
            work, of_settings = _reload_workspace(work)
    except Error as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    finally:
        channels.close()
        topics.close()
        monitor.close()
        metrics.close()
        sql_rules.close()


class ProblemLog:
    """Logs a line when a problem begins, and a line when it is over."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def report(self, problems: Iterable[str]) -> None:
        now = {_VARIES.sub("", one): one for one in sorted(set(problems), reverse=True)}
        for same in sorted(now.keys() - self._known.keys()):
            logger.warning("%s", now[same])
        for same in sorted(self._known.keys() - now.keys()):
            logger.info("resolved: %s", self._known[same])
        self._known = now


def measure(work: Workspace, monitor: LagMonitor, mirror: GroupMirror) -> list[str]:
    """Returns the problems. The lag is written before groups are moved, which may take time."""
    found = [mirror.with_group(one) for one in monitor.measure(work)]
    problems = [text for one in found for text in (one.problem, one.group_problem) if text]
    try:
        lag.write(work.places, found)
    except OSError as exc:
        problems.append(f"lag.json could not be written: {exc.strerror or exc}")
    mirror.tick(work, found)
    return problems


def _reload_workspace(work: Workspace) -> tuple[Workspace, list[str]]:
    """Applies the current settings, or the last valid ones while the file is invalid."""
    try:
        return open_workspace(work.project, work.profile), []
    except Error as exc:
        return work, [f"headrace.toml was not reloaded: {exc.what}"]


def _has_supervisor_ended(timeout_s: float) -> bool:
    """The supervisor holds the other end of stdin."""
    ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
    return bool(ready) and not os.read(sys.stdin.fileno(), 4096)


if __name__ == "__main__":
    sys.exit(main())
