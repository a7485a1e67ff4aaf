"""Detects undeclared sources in the plan of a function or a script.

Used by `frames` for pipelines and by `script_queries` for scripts. A source of an unknown kind has
a name but no connector. Invariant: options with secrets are not copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.connectors import undeclared_connectors
from headrace.connectors.connector import Connector
from headrace.driver import plan_analysis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class DetectedSource:
    """`name` is kind and place: text:incoming, kafka:orders, socket:localhost:9999."""

    name: str
    connector: Connector | None


def detect(
    frame: DataFrame, inputs: Iterable[DataFrame], project: Path
) -> tuple[DetectedSource, ...]:
    """The streaming sources of a frame that are not in its inputs, each once."""
    known = [source for frame_in in inputs for source in _sources(frame_in, project)]
    detected: list[DetectedSource] = []
    for source in _sources(frame, project):
        if source not in known and source not in detected:
            detected.append(source)
    return tuple(detected)


def free_name(source: DetectedSource, taken: Mapping[str, object]) -> str:
    """The source's name, with a number if `taken` has another connector under that name."""
    name = source.name
    for number in itertools.count(2):
        if name not in taken or taken[name] == source.connector:
            break
        name = f"{source.name} {number}"
    return name


def _sources(frame: DataFrame, project: Path) -> Iterator[DetectedSource]:
    for kind, option in plan_analysis.relations(frame):
        yield DetectedSource(*undeclared_connectors.identify_source(kind, option, project))
