"""Rates of a whole pipeline: the rows that its sources deliver, each source counted once.

Five queries that read one topic with 300 rows/s read 1,500 rows/s, but the pipeline's input is 300.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.pipeline import Definition
from headrace.model.status import QueryStatus

SOURCE = "source"


@dataclass(frozen=True, slots=True)
class QueryRates:
    """Rows per second: read, and per second of batch time."""

    input: float
    processing: float | None


@dataclass(frozen=True, slots=True)
class PipelineRates:
    """`by_source` has the sources whose rate is known on its own: a join reports only the sum of
    its sources. `capacity` is None while there is no input to measure it by."""

    input: float
    capacity: float | None
    by_source: Mapping[str, float]


def sources_by_query(definition: Definition | None) -> dict[str, frozenset[str]]:
    """The streaming sources that each query reads, through any number of views. The output of
    another query is not a source of the pipeline."""
    if definition is None:
        return {}
    nodes = {node.name: node for node in definition.nodes}
    queries = {query.name for query in definition.queries}

    def sources(name: str, seen: frozenset[str]) -> frozenset[str]:
        node = nodes.get(name)
        if node is None or name in queries or name in seen:
            return frozenset()
        if node.kind == SOURCE:
            return frozenset({name})
        return union(node.inputs, seen | {name})

    def union(names: tuple[str, ...], seen: frozenset[str]) -> frozenset[str]:
        return frozenset().union(*(sources(name, seen) for name in names))

    return {query.name: union(query.inputs, frozenset()) for query in definition.queries}


def current_rates(
    queries: Iterable[QueryStatus], sources: Mapping[str, frozenset[str]]
) -> PipelineRates:
    rates = {q.name: QueryRates(q.input_rate or 0.0, q.processing_rate) for q in queries}
    return pipeline_rates(rates, sources)


def pipeline_rates(
    queries: Mapping[str, QueryRates], sources: Mapping[str, frozenset[str]]
) -> PipelineRates:
    """A query whose sources are unknown (a script's) counts as the only reader of its own source.

    Capacity: the input at which the busiest query would work all the time, if the input of all
    queries grew in proportion.
    """
    rate_by_sources: dict[frozenset[str], float] = {}
    for name, rates in queries.items():
        read = sources.get(name, frozenset({f"{name}()"}))
        if read:
            rate_by_sources[read] = max(rates.input, rate_by_sources.get(read, 0.0))
    # Smaller sets first: what they read is then subtracted from the joins that contain them.
    counted: dict[frozenset[str], float] = {}
    for read in sorted(rate_by_sources, key=lambda one: (len(one), sorted(one))):
        new = read - frozenset().union(*counted)
        known = sum(rate for part, rate in counted.items() if part <= read)
        if new:
            counted[new] = max(0.0, rate_by_sources[read] - known)
    total = sum(counted.values())
    busy = max((q.input / q.processing for q in queries.values() if q.processing), default=0.0)
    by_source = {name: rate for part, rate in counted.items() if len(part) == 1 for name in part}
    return PipelineRates(total, total / busy if busy else None, by_source)
