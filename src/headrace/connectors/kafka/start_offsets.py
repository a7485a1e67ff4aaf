"""Start and end of reading Kafka topics: the allowed values, and the options of Spark. Pure.

`normalise` converts a value to text: "earliest", "latest", a timestamp (2026-11-16T10:00:00Z), or
JSON with offsets or timestamps by topic and partition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.errors import ConnectorError

ENDS = {"latest": -1, "earliest": -2}


def normalise(side: str, value: str | Mapping[str, Any]) -> str:
    """Raises ConnectorError if the value is invalid."""
    if isinstance(value, str):
        text = value.strip()
        if text in ENDS:
            if (side, text) == ("ending", "earliest"):
                raise invalid_offsets(side, value, "nothing would be read")
            return text
        if not text.startswith("{"):
            return _normalise_timestamp(side, text)
        try:
            value = json.loads(text)
        except ValueError as exc:
            raise invalid_offsets(side, text, f"it is not JSON: {exc}") from exc
    if not isinstance(value, Mapping) or not value:
        raise invalid_offsets(side, value, "it contains no topic")
    made = {str(topic): _partitions(side, str(topic), found) for topic, found in value.items()}
    kinds = {type(one) for found in made.values() for one in found.values()}
    if len(kinds) > 1:
        raise invalid_offsets(side, value, "it mixes offsets and timestamps")
    return json.dumps(made)


def check_topics(
    side: str, text: str, covered: Callable[[str], bool], named: Iterable[str]
) -> None:
    """Raises if offsets by partition are not for exactly the topics that are read. `named` are
    those known by name."""
    if not text.startswith("{"):
        return
    given = json.loads(text)
    for topic in given:
        if not covered(topic):
            raise invalid_offsets(side, given, f"the connector does not read {topic!r}")
    for topic in named:
        if topic not in given:
            raise invalid_offsets(
                side, given, f"it must contain every topic, but {topic!r} is missing"
            )


def find_problem(text: str, ends: Mapping[tuple[str, int], tuple[int, int]]) -> str | None:
    """Why starting offsets by partition do not fit the broker's partitions."""
    if not text.startswith("{"):
        return None
    given = {(t, int(p)): at for t, of in json.loads(text).items() for p, at in of.items()}
    for words, odd in (
        ("lacks", sorted(ends.keys() - given.keys())),
        ("contains a partition that does not exist:", sorted(given.keys() - ends.keys())),
    ):
        if odd:
            return f"it {words} {', '.join(f'{t} partition {p}' for t, p in odd)}"
    for (topic, partition), at in given.items():
        low, high = ends[topic, partition]
        if isinstance(at, int) and at >= 0 and not low <= at <= high:
            return f"{topic} partition {partition} has offsets {low} to {high}, not {at}"
    return None


def to_spark_options(side: str, text: str) -> dict[str, str]:
    """startingOffsets, startingTimestamp or startingOffsetsByTimestamp of Spark's connector."""
    if text in ENDS:
        return {f"{side}Offsets": text}
    # Read a partition without newer records from its end, where Spark would fail by default.
    since = {"startingOffsetsByTimestampStrategy": "latest"} if side == "starting" else {}
    if not text.startswith("{"):
        return {f"{side}Timestamp": str(_millis(text)), **since}
    found = json.loads(text)
    if any(isinstance(one, str) for topic in found.values() for one in topic.values()):
        at = {topic: {p: _millis(m) for p, m in of.items()} for topic, of in found.items()}
        return {f"{side}OffsetsByTimestamp": json.dumps(at), **since}
    return {f"{side}Offsets": text}


def _partitions(side: str, topic: str, found: object) -> dict[str, int | str]:
    if not isinstance(found, Mapping) or not found:
        raise invalid_offsets(side, found, f"topic {topic!r} needs at least one partition")
    made: dict[str, int | str] = {}
    for partition, value in found.items():
        if not str(partition).isdigit():
            raise invalid_offsets(side, partition, f"a partition of {topic!r} must be a number")
        if isinstance(value, str) and value.lstrip("-").isdigit():
            raise invalid_offsets(
                side, value, f"an offset in {topic!r} must be a number, not text: {value}"
            )
        if isinstance(value, str):
            made[str(partition)] = ENDS.get(value) or _normalise_timestamp(side, value)
        elif type(value) is int and value >= min(ENDS.values()):
            made[str(partition)] = value
        else:
            raise invalid_offsets(
                side, value, f"an offset in {topic!r} must be a whole number, 0 or greater"
            )
        if side == "ending" and made[str(partition)] == ENDS["earliest"]:
            raise invalid_offsets(side, value, f"nothing would be read from {topic!r}")
    return made


def _normalise_timestamp(side: str, text: str) -> str:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as exc:
        raise invalid_offsets(side, text, "it is not a timestamp, earliest or latest") from exc
    if at.tzinfo is None:
        raise invalid_offsets(side, text, "a timestamp needs a time zone; for UTC, add Z")
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _millis(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def invalid_offsets(side: str, value: object, why: str) -> ConnectorError:
    words, end = (
        ('"earliest", "latest"', "earliest") if side == "starting" else ('"latest"', "latest")
    )
    return ConnectorError(
        f"Invalid value for {side} ({value!r}): {why}.",
        fix=f'Write {side}={words}, "2026-01-31T08:00:00Z" or '
        f'{{"topic": {{"0": 1234, "1": "{end}"}}}}.',
        slug="kafka-offsets",
    )
