"""Translates options of a sink (`kafka.…`, for the Java client) to librdkafka. Pure.
Used by `transactions` and `producer`.
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


def to_librdkafka(options: Mapping[str, str]) -> dict[str, Any]:
    """Client settings under librdkafka's names; options of Spark are left out."""
    made: dict[str, Any] = {}
    for option, value in options.items():
        if option.startswith(_PREFIX):
            own = option.removeprefix(_PREFIX)
            is_memory = own == "buffer.memory" and value.isdigit()
            made[_NAMES.get(own, own)] = int(value) // 1024 if is_memory else value
    return made


def option_error(words: str) -> ConnectorError:
    """`words` is the message of librdkafka."""
    return ConnectorError(
        f"The Kafka client rejected an option: {words}.",
        why="The client is librdkafka. Some of its settings have different names from those of "
        "the Java client.",
        fix="Use librdkafka's name for the option (see its CONFIGURATION.md) with the prefix "
        "`kafka.`, or remove the option.",
        slug="kafka-option",
    )


def not_exactly_once(title: str, where: str) -> ConnectorError:
    """For topics that Headrace writes for the project."""
    return ConnectorError(
        f"{title}: exactly_once is not supported here.",
        why="exactly_once writes each batch in one transaction, but these records are written one "
        "at a time. Readers can recognise duplicates by their content.",
        where=where,
        fix="Remove exactly_once.",
        slug="bad-option",
    )
