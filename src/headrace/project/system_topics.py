"""Topics that the project itself uses (alerts, metrics), as connectors, for `check --connect`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.alerts import channels
from headrace.alerts.rules import rule_settings
from headrace.config import Settings
from headrace.connectors import alert_topic, kinds
from headrace.connectors.kafka import producer_options
from headrace.connectors.kafka.broker_client import READ, WRITE
from headrace.errors import Error, together
from headrace.metrics import exporters

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka

METRICS_TOPIC = "headraceMetrics"


@dataclass(frozen=True, slots=True)
class ProjectSink:
    """`made` builds the connector and raises if its settings are wrong."""

    setting: str
    place: str
    made: Callable[[Settings], Kafka | None]
    wanted: Sequence[str] = (WRITE,)


def list_sinks(settings: Settings) -> list[ProjectSink]:
    found = []
    if settings.alerts:
        both = (READ, WRITE)  # the relay reads what pipelines write
        found.append(ProjectSink("alerts", settings.place("alerts"), alert_topic.topic_of, both))
    if "kafka" in settings.metrics:
        found.append(ProjectSink("metrics.kafka", settings.place("metrics", "kafka"), metrics))
    return found


def check(settings: Settings, pipelines: Iterable[str] = ()) -> None:
    """Raises all problems of the settings, given the pipelines of the project. Connects to
    nothing."""
    problems = []
    names = partial(rule_settings.check_names, pipelines=pipelines)
    builds: list[Callable[[Settings], object]] = [sink.made for sink in list_sinks(settings)]
    builds += [channels.channels, exporters.check, rule_settings.build, names]
    for build in builds:
        try:
            build(settings)
        except Error as exc:
            problems.append(exc)
    if problems:
        raise together(problems)


def metrics(settings: Settings) -> Kafka | None:
    """The topic for progress events, if one is set."""
    given = settings.metrics.get("kafka")
    if given is None:
        return None
    where = settings.place("metrics", "kafka")
    given = {"topic": METRICS_TOPIC, **given, "kind": "kafka"}
    made = kinds.build_connector(given, name="metrics.kafka", where=where).as_kafka()
    if made and made.exactly_once:
        raise producer_options.not_exactly_once("[metrics.kafka]", where)
    return made and made.resolve_paths(settings.project)
