"""`python -m headrace.relay.main PROJECT [--profile NAME]`: the relay.

Started by the supervisor if a channel is set, metrics are exported or a pipeline uses a broker. It
ends when its standard input closes, so it never outlives the supervisor. It never affects a
pipeline. This module only lists the duties; `duties.py` runs each in its own thread.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import select
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from headrace import config, logs
from headrace.errors import Error
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay.alert_topics import AlertTopics
from headrace.relay.channels import Channels
from headrace.relay.consumer_groups import GroupMirror
from headrace.relay.duties import Duty, DutyRoster
from headrace.relay.lag import LagMonitor
from headrace.relay.metric_facts import MetricSource
from headrace.relay.metrics_topic import KafkaMetrics
from headrace.relay.otlp_export import OtlpExport
from headrace.relay.prometheus_export import PrometheusExport
from headrace.relay.sql_rules import SqlRules
from headrace.relay.statsd_export import StatsdExport
from headrace.state import lag

NICE = 5  # pipelines come first
REPORT_S = 2.0  # how often problems are reported and the settings are read
END_S = 8.0  # the supervisor kills a relay that takes longer than 10 s
_VARIES = re.compile(r"\([^)]*\)")  # times and counts in a client's message

logger = logging.getLogger("headrace.relay")  # __name__ would be __main__


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace.relay.main", description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--profile", default=config.DEV)
    given = parser.parse_args(arguments)
    logs.configure()
    os.nice(NICE)
    try:
        current = CurrentWorkspace(open_workspace(given.project, given.profile))
    except Error as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    left = work_until_supervisor_ends(current, duties())
    if left:
        logger.warning("ended without waiting for: %s", ", ".join(left))
        logging.shutdown()
        os._exit(0)  # a thread that hangs would delay the usual exit
    return 0


def duties() -> list[Duty]:
    """All duties of the relay. Two objects are shared: the mirror, which gets the measured lag, and
    the source of metrics."""
    monitor, mirror = LagMonitor(), GroupMirror()
    topics, channels, kafka = AlertTopics(), Channels(), KafkaMetrics()
    source = MetricSource()  # shared by the three exporters below; it has a lock
    rules = SqlRules()
    prometheus, statsd, otlp = PrometheusExport(source), StatsdExport(source), OtlpExport(source)
    return [
        Duty("the lag measurement", partial(measure, monitor=monitor, mirror=mirror),
             monitor.close),
        Duty("the mirror of consumer groups", mirror.tick),
        Duty("the reader of alert topics", topics.tick, topics.close),
        Duty("the channels", channels.tick, channels.close),
        Duty("the rules with SQL", rules.tick, rules.close),
        Duty("the export to Kafka", kafka.tick, kafka.close, has_last_run=True),
        Duty("the server for Prometheus", prometheus.tick, prometheus.close),
        Duty("the export to StatsD", statsd.tick, statsd.close, every_s=1.0),
        Duty("the export over OTLP", otlp.tick, otlp.close, every_s=1.0),
    ]  # fmt: skip


def work_until_supervisor_ends(current: CurrentWorkspace, duties: Iterable[Duty]) -> Sequence[str]:
    """Returns the names of duties that did not end in time."""
    roster, log = DutyRoster(duties, current.get), ProblemLog()
    while not _has_supervisor_ended(REPORT_S):
        log.report([*roster.problems, *current.reload()])
    return roster.end(END_S)


class CurrentWorkspace:
    """The workspace with the current settings, or the last valid ones while the file is invalid.
    Read by all duties, changed by the main thread."""

    def __init__(self, work: Workspace) -> None:
        self._work = work

    def get(self) -> Workspace:
        return self._work

    def reload(self) -> list[str]:
        """The problem of the file, if it has one."""
        try:
            self._work = open_workspace(self._work.project, self._work.profile)
        except Error as exc:
            return [f"headrace.toml was not reloaded: {exc.what}"]
        return []


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
    """Measures the lag and passes it to the mirror, which works in its own thread."""
    found = [mirror.with_group(one) for one in monitor.measure(work)]
    problems = [one.problem for one in found if one.problem]
    try:
        lag.write(work.places, found)
    except OSError as exc:
        problems.append(f"lag.json could not be written: {exc.strerror or exc}")
    mirror.pass_on(found)
    return problems


def _has_supervisor_ended(timeout_s: float) -> bool:
    """The supervisor holds the other end of stdin."""
    ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
    return bool(ready) and not os.read(sys.stdin.fileno(), 4096)


if __name__ == "__main__":
    sys.exit(main())
