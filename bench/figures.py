"""From raw rounds to figures: ratios, medians, targets. Pure; results.json holds raw rounds only.

Read by `page.py`, which writes the tables, and by `__main__.py`, which judges the targets.
Invariant: two sides are compared within a round, never across rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Run = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A bound and the side on which a figure has to be."""

    name: str
    bound: float
    is_least: bool  # True: at least; False: less than
    unit: str = ""

    def is_met(self, figure: float) -> bool:
        return figure >= self.bound if self.is_least else figure < self.bound

    def words(self, figure: float) -> str:
        side = "at least" if self.is_least else "less than"
        verdict = "met" if self.is_met(figure) else "**missed**"
        target = f"{side} {self.bound:g}{self.unit}"
        return f"{self.name}: {shown(figure)}{self.unit} (target: {target}, {verdict})"


OVERHEAD = Target("records per CPU-second, Headrace relative to a bare script", 0.97, is_least=True)
DEFAULTS = Target(
    "records per second, Headrace's defaults relative to PySpark's", 1.5, is_least=True
)
SUPERVISOR_CPU = Target("CPU of the supervisor with idle pipelines", 5.0, False, " % of a core")
RULES_CPU = Target("CPU of all default rules for 200 pipelines", 5.0, False, " % of a core")
SQL = Target(
    "time of a SQL query, Headrace relative to DuckDB alone, worse of two queries", 2.0, False
)
DEMO_CPU = Target(
    "CPU of the demo with all outputs, at its default rate", 75.0, False, " % of all cores"
)
WEB = Target("p95 of an API call, large relative to small project, worst call", 3.0, False)
WEB_MEMORY = Target("memory of the page's process with the large project", 150.0, False, " MB")
SOAK_MEMORY = Target("memory of the page's process after ten minutes", 150.0, False, " MB")
SOAK_HEAP = Target("browser's heap, last minutes relative to the first, worse window", 1.1, False)
EXPORTERS = Target("records per second with all exporters, relative to none", 0.98, is_least=True)
SUPERVISOR_MEMORY = Target("memory of the supervisor with idle pipelines", 150.0, False, " MB")
# On Kafka each line has to hold in every round, so the worst round is the figure.
APP = Target(
    "records per CPU-second of all outputs, Headrace relative to plain PySpark, worst round",
    2.0,
    is_least=True,
)
PARSED = Target(
    "the history alone, hr.parse_json relative to plain PySpark, worst round", 1.3, True
)
SAME = Target(
    "the history alone, Headrace relative to an equivalent bare script, worst round", 0.95, True
)
REAL_TIME = "micro-batch relative to real time with two-minute batches, worst round"
P50 = Target(f"p50 of heartbeats, {REAL_TIME}", 20.0, True)
P99 = Target(f"p99 of heartbeats, {REAL_TIME}", 5.0, True)
ALERT = Target("p50 from a record to its open alert, worst round", 100.0, False, " ms")
NOTICE_OF_EXIT = Target(
    "p95 from a driver's end to the notice at the pager, worst round", 2_000.0, False, " ms"
)
NOTICE_OF_ROW = Target(
    "p50 from a record to the notice about its alert, in real time, worst round",
    250.0,
    False,
    " ms",
)
CLOCK_MS = 1.0  # what an append time can tell
M6_A_SECOND = 389_000  # records for each node


def per_second(run: Run) -> float:
    return float(run["rows"]) / float(run["seconds"])


def per_cpu_second(run: Run) -> float:
    return float(run["rows"]) / float(run["cpu_s"])


def overhead_ratios(rounds: Sequence[Run]) -> list[float]:
    return [per_cpu_second(r["headrace"]) / per_cpu_second(r["bare"]) for r in rounds]


def exporter_ratios(rounds: Sequence[Run]) -> list[float]:
    return [per_second(r["on"]) / per_second(r["off"]) for r in rounds]


def step_ratios(rounds: Sequence[Run], step: str, below: str, figure: Any) -> list[float]:
    """Of the rounds in which both steps were run."""
    both = [r["steps"] for r in rounds if step in r["steps"] and below in r["steps"]]
    return [figure(steps[step]) / figure(steps[below]) for steps in both]


def sql_ratios(rounds: Sequence[Run], question: str) -> list[float]:
    mine = [r for r in rounds if r["question"] == question]
    return [float(r["headrace_s"]) / float(r["alone_s"]) for r in mine]


def web_ratios(rounds: Sequence[Run], call: str) -> list[float]:
    mine = [r for r in rounds if r["call"] == call]
    return [float(r["large_p95_ms"]) / float(r["small_p95_ms"]) for r in mine]


def heap_growth(samples: Sequence[Run], window: str) -> float:
    """The least of the last three minutes over the most of the first three (without the opening):
    what is only not collected yet is no growth.
    """
    heap = [float(one["heap_mb"][window]) for one in samples]
    return min(heap[-3:]) / max(heap[1:4])


def ratios(rounds: Sequence[Run], side: str, over: str) -> list[float]:
    """Of records per CPU-second."""
    return [per_cpu_second(r[side]) / per_cpu_second(r[over]) for r in rounds]


def per_working_second(run: Run) -> float:
    """Records per CPU-second, what was used before the first batch left out."""
    return float(run["rows"]) / (float(run["cpu_s"]) - float(run["start_cpu_s"]))


def sooner(rounds: Sequence[Run], share: str) -> list[float]:
    """How many times longer the micro-batch takes; less than the clock can tell is not believed."""
    return [r["micro_batch"][share] / max(r["real_time"][share], CLOCK_MS) for r in rounds]


def cores_needed(run: Run) -> float:
    """For M6's records a second, all outputs, if cores only add up."""
    return M6_A_SECOND / per_working_second(run)


def median(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("no rounds, no median")
    return statistics.median(values)


def spread(values: Sequence[float]) -> str:
    return f"{shown(min(values))}–{shown(max(values))}"


def shown(value: float) -> str:
    """Three digits that mean something; thousands in groups."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def outcomes(results: Mapping[str, Run]) -> list[tuple[Target, float]]:
    """Each target with the figure that was measured for it, as far as it was measured."""
    found: list[tuple[Target, float]] = []
    if rounds := _rounds(results, "overhead"):
        found.append((OVERHEAD, median(overhead_ratios(rounds))))
    if rounds := _rounds(results, "defaults"):
        found.append((DEFAULTS, median(step_ratios(rounds, "headrace", "pyspark", per_second))))
    if rounds := _rounds(results, "supervisor"):
        idle = [r for r in rounds if r["kind"] == "idle"]
        found.append((SUPERVISOR_CPU, median([r["cpu_percent"] for r in idle])))
        found.append((SUPERVISOR_MEMORY, max(r["memory_mb"] for r in idle)))
    if rounds := _rounds(results, "rules"):
        found.append((RULES_CPU, median([r["cpu_percent"] for r in rounds])))
    if rounds := _rounds(results, "sql"):
        asked = dict.fromkeys(r["question"] for r in rounds)
        found.append((SQL, max(median(sql_ratios(rounds, one)) for one in asked)))
    if rounds := _rounds(results, "demo"):
        found.append((DEMO_CPU, median([r["cpu_percent_of_all"] for r in rounds])))
    if rounds := _rounds(results, "web"):
        calls = dict.fromkeys(r["call"] for r in rounds)
        found.append((WEB, max(median(web_ratios(rounds, call)) for call in calls)))
        found.append((WEB_MEMORY, max(r["memory_mb"] for r in rounds)))
    if rounds := _rounds(results, "soak"):
        samples = rounds[-1]["samples"]
        found.append((SOAK_MEMORY, samples[-1]["web_mb"]))
        windows = samples[0]["heap_mb"]
        found.append((SOAK_HEAP, max(heap_growth(samples, one) for one in windows)))
    if rounds := _rounds(results, "exporters"):
        found.append((EXPORTERS, median(exporter_ratios(rounds))))
    return found + _on_kafka(results)


def _on_kafka(results: Mapping[str, Run]) -> list[tuple[Target, float]]:
    found: list[tuple[Target, float]] = []
    if rounds := _rounds(results, "kafka-app"):
        found.append((APP, min(ratios(rounds, "headrace", "naive"))))
    if rounds := _rounds(results, "kafka-history"):
        found.append((PARSED, min(ratios(rounds, "checked", "naive"))))
        found.append((SAME, min(ratios(rounds, "plain", "bare"))))
    if rounds := _rounds(results, "kafka-latency"):
        found.append((P50, min(sooner(rounds, "p50_ms"))))
        found.append((P99, min(sooner(rounds, "p99_ms"))))
        found.append((ALERT, max(r["alerts"]["p50_ms"] for r in rounds)))
    if rounds := _rounds(results, "notices"):
        found.append((NOTICE_OF_EXIT, max(r["exits"]["p95_ms"] for r in rounds)))
        found.append((NOTICE_OF_ROW, max(r["rows"]["p50_ms"] for r in rounds)))
    return found


def _rounds(results: Mapping[str, Run], name: str) -> Sequence[Run]:
    rounds: Sequence[Run] = results.get(name, {}).get("rounds", ())
    return rounds
