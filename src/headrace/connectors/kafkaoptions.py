"""Options of a sink (`kafka.…`, as Spark's connector takes them) for our own client, librdkafka.
Read by `kafkaonce` and `kafkarecords`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import ConnectorError

_PREFIX = "kafka."
# setting of the Java client -> librdkafka's name, where they differ
_NAMES = {
    "max.request.size": "message.max.bytes",
    "buffer.memory": "queue.buffering.max.kbytes",
    "delivery.timeout.ms": "message.timeout.ms",
}


def translated(options: Mapping[str, str]) -> dict[str, Any]:
    """Those of the client, by librdkafka's names; others are Spark's own, and mean nothing here."""
    made: dict[str, Any] = {}
    for option, value in options.items():
        if option.startswith(_PREFIX):
            own = option.removeprefix(_PREFIX)
            is_memory = own == "buffer.memory" and value.isdigit()
            made[_NAMES.get(own, own)] = int(value) // 1024 if is_memory else value
    return made


def unfit(words: str) -> ConnectorError:
    """`words` are librdkafka's, about an option that it does not take."""
    return ConnectorError(
        f"Kafka's client does not take an option: {words}.",
        why="It is librdkafka, not the Java client: a few of its settings have other names.",
        fix="Use its name (librdkafka, CONFIGURATION.md), with kafka. before it, or remove the "
        "option.",
        slug="kafka-option",
    )


def not_exactly_once(title: str, where: str) -> ConnectorError:
    """Of a topic that Headrace itself writes for the project."""
    return ConnectorError(
        f"{title}: exactly_once is not for this topic.",
        why="It makes each batch of a query one transaction, and here records are written one by "
        "one, as they come. Whoever reads them tells a repetition by its content.",
        where=where,
        fix="Remove exactly_once.",
        slug="bad-option",
    )
