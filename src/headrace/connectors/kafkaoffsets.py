"""Where reading of Kafka topics begins and ends: what one may write, and Spark's options. Pure.

`plain` gives one text for every form, which comes back as it went: "earliest", "latest", a moment
(2026-11-16T10:00:00Z), or JSON by topic and partition of offsets or of moments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.errors import ConnectorError

ENDS = {"latest": -1, "earliest": -2}


def plain(side: str, value: str | Mapping[str, Any]) -> str:
    """The text of a form that makes sense; raises ConnectorError with what is wrong in it."""
    if isinstance(value, str):
        text = value.strip()
        if text in ENDS:
            if (side, text) == ("ending", "earliest"):
                raise wrong(side, value, "nothing would be read")
            return text
        if not text.startswith("{"):
            return _moment(side, text)
        try:
            value = json.loads(text)
        except ValueError as exc:
            raise wrong(side, text, f"it is not JSON: {exc}") from exc
    if not isinstance(value, Mapping) or not value:
        raise wrong(side, value, "it names no topic")
    made = {str(topic): _partitions(side, str(topic), found) for topic, found in value.items()}
    kinds = {type(one) for found in made.values() for one in found.values()}
    if len(kinds) > 1:
        raise wrong(side, value, "it mixes offsets and moments")
    return json.dumps(made)


def unfit(side: str, text: str, covered: Callable[[str], bool], named: Iterable[str]) -> None:
    """Raises if a form by partition is about other topics than those that are read: Spark wants
    exactly these. `named` are the topics that are known by name already."""
    if not text.startswith("{"):
        return
    given = json.loads(text)
    for topic in given:
        if not covered(topic):
            raise wrong(side, given, f"{topic!r} is not read here")
    for topic in named:
        if topic not in given:
            raise wrong(side, given, f"it says nothing of {topic!r}, and has to of every topic")


def problem(text: str, ends: Mapping[tuple[str, int], tuple[int, int]]) -> str | None:
    """What is wrong with a beginning by partition, held against where the broker's partitions
    begin and end."""
    if not text.startswith("{"):
        return None
    given = {(t, int(p)): at for t, of in json.loads(text).items() for p, at in of.items()}
    for words, odd in (
        ("says nothing of", sorted(ends.keys() - given.keys())),
        ("names what is not there:", sorted(given.keys() - ends.keys())),
    ):
        if odd:
            return f"it {words} {', '.join(f'{t} partition {p}' for t, p in odd)}"
    for (topic, partition), at in given.items():
        low, high = ends[topic, partition]
        if isinstance(at, int) and at >= 0 and not low <= at <= high:
            return f"{topic} partition {partition} has {low} to {high}, and not {at}"
    return None


def option(side: str, text: str) -> dict[str, str]:
    """Of Spark's connector: startingOffsets, startingTimestamp or startingOffsetsByTimestamp."""
    if text in ENDS:
        return {f"{side}Offsets": text}
    # A partition with nothing since the moment is read from its end; Spark alone would fail.
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
        raise wrong(side, found, f"topic {topic!r} needs partitions")
    made: dict[str, int | str] = {}
    for partition, value in found.items():
        if not str(partition).isdigit():
            raise wrong(side, partition, f"a partition of {topic!r} is a number from 0")
        if isinstance(value, str) and value.lstrip("-").isdigit():
            raise wrong(side, value, f"an offset of {topic!r} is a number, not a text: {value}")
        if isinstance(value, str):
            made[str(partition)] = ENDS[value] if value in ENDS else _moment(side, value)
        elif type(value) is int and value >= min(ENDS.values()):
            made[str(partition)] = value
        else:
            raise wrong(side, value, f"an offset of {topic!r} is a whole number from 0")
    return made


def _moment(side: str, text: str) -> str:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as exc:
        raise wrong(side, text, "it is no moment, and neither earliest nor latest") from exc
    if at.tzinfo is None:
        raise wrong(side, text, "a moment needs its time zone; UTC is a Z at the end")
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _millis(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def wrong(side: str, value: object, why: str) -> ConnectorError:
    return ConnectorError(
        f"{side}={value!r} will not do: {why}.",
        fix=f'Write {side}="earliest", "latest", "2026-01-31T08:00:00Z" or '
        '{"topic": {"0": 1234, "1": "earliest"}}.',
        slug="kafka-offsets",
    )
