"""Where the project itself writes to, beside its pipelines, by its settings alone: each as a
connector, so that `check --connect` can ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.config import Settings
from headrace.connectors import alerttopic, kafkaoptions, kinds
from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import READ, WRITE
from headrace.errors import Error, together

METRICS_TOPIC = "headraceMetrics"


@dataclass(frozen=True, slots=True)
class Outlet:
    """`setting` and `place` for people; `made` raises what is wrong with it."""

    setting: str
    place: str
    made: Callable[[Settings], Kafka | None]
    wanted: Sequence[str] = (WRITE,)


def listed(settings: Settings) -> list[Outlet]:
    """Those that are asked for."""
    found = []
    if settings.alerts:
        both = (READ, WRITE)  # the relay reads what pipelines write
        found.append(Outlet("alerts", settings.place("alerts"), alerttopic.topic_of, both))
    if "kafka" in settings.metrics:
        found.append(Outlet("metrics.kafka", settings.place("metrics", "kafka"), metrics))
    return found


def check(settings: Settings) -> None:
    """Raises all that is wrong; asks nobody."""
    problems = []
    for one in listed(settings):
        try:
            one.made(settings)
        except Error as exc:
            problems.append(exc)
    if problems:
        raise together(problems)


def metrics(settings: Settings) -> Kafka | None:
    """The topic for progress events, if one is asked for."""
    given = settings.metrics.get("kafka")
    if given is None:
        return None
    where = settings.place("metrics", "kafka")
    given = {"topic": METRICS_TOPIC, **given, "kind": Kafka.kind}
    made = kinds.made(given, name="metrics.kafka", where=where)
    assert isinstance(made, Kafka)  # noqa: S101 - its kind says so
    if made.exactly_once:
        raise kafkaoptions.not_exactly_once("[metrics.kafka]", where)
    return made.located(settings.project)
