"""The tables of the benchmarks on Kafka, for `page.py`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import figures
from bench.figures import median, per_cpu_second, per_second, per_working_second, shown, spread
from bench.tables import table

Result = Mapping[str, Any]
APP_SIDES = {"headrace": "Headrace", "naive": "plain PySpark"}
HISTORY_SIDES = {
    "checked": "Headrace, `hr.parse_json`",
    "plain": "Headrace, `from_json`",
    "bare": "bare script, Headrace's settings, `from_json`",
    "naive": "bare script, Spark's own settings, `from_json`",
}
LATENCY_SIDES = {
    "real_time": "heartbeats, real time under Headrace",
    "micro_batch": "heartbeats, default micro-batch of a bare script",
    "alerts": "record to open alert, while the history query runs",
}

NOTICES = {
    "exits": "a driver is killed, no restart is left",
    "rows": "a record opens an alert, in real time",
}


def app(rounds: Sequence[Result]) -> str:
    ratios = figures.ratios(rounds, "headrace", "naive")
    rows = [
        (
            str(one["round"]),
            *(shown(per_cpu_second(one[side])) for side in APP_SIDES),
            *(f"{one[side]['seconds']:.0f} s" for side in APP_SIDES),
            f"{ratio:.2f}",
        )
        for one, ratio in zip(rounds, ratios, strict=True)
    ]
    rows.append(("**worst**", "", "", "", "", f"**{min(ratios):.2f}**"))
    speeds = [f"{words}, records/CPU-s" for words in APP_SIDES.values()]
    times = [f"{words}, time for all outputs" for words in APP_SIDES.values()]
    head = ("round", *speeds, *times, "ratio of records/CPU-s")
    return "\n\n".join((table(head, rows), _where_cpu_goes(rounds), _at_scale(rounds)))


def _where_cpu_goes(rounds: Sequence[Result]) -> str:
    lines = []
    for side, words in APP_SIDES.items():
        runs = [one[side] for one in rounds]
        roles = sorted({role for run in runs for role in run["cpu_by_role"]})
        shares = {r: median([run["cpu_by_role"].get(r, 0.0) for run in runs]) for r in roles}
        cells = ", ".join(f"{role} {shown(value)}" for role, value in shares.items())
        start = median([run["start_cpu_s"] for run in runs])
        working = shown(median([per_working_second(run) for run in runs]))
        memory = f"{shown(max(run['memory_mb'] for run in runs))} MB"
        mistaken = f"{max(run['mistaken'] for run in runs):,}"
        lines.append((words, cells, f"{shown(start)} s", working, memory, mistaken))
    head = ("side", "CPU seconds", "of these, before the first batch", "records/CPU-s after that")
    return table((*head, "peak memory", "bad records accepted as logs"), lines)


def _at_scale(rounds: Sequence[Result]) -> str:
    """A projection to the load of M6, from the worst round."""
    worst = {s: max((one[s] for one in rounds), key=figures.cores_needed) for s in APP_SIDES}
    ours, theirs = worst["headrace"], worst["naive"]
    return (
        f"For {figures.M6_A_SECOND:,} records per second on each node: one CPU-second processes "
        f"{shown(per_working_second(ours))} records for all outputs (worst round, excluding "
        "start-up). If throughput scales linearly with cores, a node needs "
        f"**{shown(figures.cores_needed(ours))} cores** with Headrace, and "
        f"{shown(figures.cores_needed(theirs))} with plain PySpark. This is a projection, not a "
        "measurement, and it includes neither the broker nor the network."
    )


def history(rounds: Sequence[Result]) -> str:
    rows = []
    for side, words in HISTORY_SIDES.items():
        runs = [one[side] for one in rounds]
        speed = [per_cpu_second(run) for run in runs]
        over = figures.ratios(rounds, side, "naive")
        ratio = "1" if side == "naive" else f"{median(over):.2f} ({spread(over)})"
        second = shown(median([per_second(run) for run in runs]))
        mistaken = f"{max(run['mistaken'] for run in runs):,}"
        rows.append((words, f"{shown(median(speed))} ({spread(speed)})", second, ratio, mistaken))
    same = figures.ratios(rounds, "plain", "bare")
    head = ("side", "records/CPU-s, median (range)", "records/s", "relative to Spark's settings")
    words = (
        f"Headrace relative to an equivalent bare script, both with `from_json`: {median(same):.3f}"
    )
    made = table((*head, "bad records accepted as logs"), rows)
    return f"{made}\n\n{words} ({spread(same)})."


def latency(rounds: Sequence[Result]) -> str:
    rows = []
    for side, words in LATENCY_SIDES.items():
        runs = [one[side] for one in rounds]
        cells = []
        for share in ("p50_ms", "p99_ms", "max_ms"):
            values = [run[share] for run in runs]
            cells.append(f"{shown(median(values))} ms ({spread(values)})")
        count = sum(run["count"] for run in runs)
        rows.append((words, *cells, f"{count:,}"))
    borders = sum(one["real_time"]["borders"] for one in rounds)
    words = f"Boundaries between two real-time batches while heartbeats were measured: {borders}."
    return table(("path", "p50", "p99", "max", "measurements"), rows) + f"\n\n{words}"


def notices(rounds: Sequence[Result]) -> str:
    rows = []
    for side, words in NOTICES.items():
        runs = [one[side] for one in rounds]
        cells = []
        for share in ("p50_ms", "p95_ms", "max_ms"):
            values = [run[share] for run in runs]
            cells.append(f"{shown(median(values))} ms ({spread(values)})")
        rows.append((words, *cells, f"{sum(run['count'] for run in runs):,}"))
    return table(("path", "p50", "p95", "max", "measurements"), rows)
