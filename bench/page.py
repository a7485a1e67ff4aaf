"""docs/benchmarks.md: its tables, made from results.json and put between their markers. Pure.

Invariant: no figure on the page is typed by hand; a test holds the page against results.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import figures, kafka_page
from bench.defaults import HEADRACE, PYSPARK, STEPS
from bench.figures import median, per_cpu_second, per_second, shown, spread
from bench.sql import WORDS
from bench.start import KINDS
from bench.tables import table

NAMES = (
    *("overhead", "defaults", "supervisor", "rules", "start", "sql", "demo", "web", "soak"),
    "exporters",
    *("kafka-app", "kafka-history", "kafka-latency", "notices"),
)
NOT_YET = "*Not measured yet: `python -m bench {name} --write`.*"
Result = Mapping[str, Any]


def rendered(page: str, results: Mapping[str, Result]) -> str:
    """The page with every table written again; raises ValueError where a marker is missing."""
    for name in NAMES:
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if page.count(begin) != 1 or end not in page.partition(begin)[2]:
            raise ValueError(f"the page needs {begin} and {end}, once each")
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        page = f"{before}{begin}\n{section(name, results)}\n{end}{after}"
    return page


def section(name: str, results: Mapping[str, Result]) -> str:
    result = results.get(name)
    if result is None:
        return NOT_YET.format(name=name)
    body = {
        "overhead": _overhead,
        "defaults": _defaults,
        "supervisor": _supervisor,
        "rules": _rules,
        "start": _start,
        "sql": _sql,
        "demo": _demo,
        "web": _web,
        "soak": _soak,
        "exporters": _exporters,
        "kafka-app": kafka_page.app,
        "kafka-history": kafka_page.history,
        "kafka-latency": kafka_page.latency,
        "notices": kafka_page.notices,
    }[name](result["rounds"])
    targets = [t.words(f) for t, f in figures.outcomes({name: result})]
    verdict = "\n".join(f"- {words}" for words in targets)
    return "\n\n".join(part for part in (verdict, body, _facts(result)) if part)


def _overhead(rounds: Sequence[Result]) -> str:
    ratios = figures.overhead_ratios(rounds)
    rows = [
        (
            str(one["round"]),
            shown(per_cpu_second(one["headrace"])),
            shown(per_cpu_second(one["bare"])),
            shown(per_second(one["headrace"])),
            shown(per_second(one["bare"])),
            f"{ratio:.3f}",
        )
        for one, ratio in zip(rounds, ratios, strict=True)
    ]
    rows.append(("**median**", "", "", "", "", f"**{median(ratios):.3f}**"))
    head = ("round", "Headrace, records/CPU-s", "bare, records/CPU-s")
    more = ("Headrace, records/s", "bare, records/s", "ratio of records/CPU-s")
    return table((*head, *more), rows) + "\n\n" + _where_cpu_goes(rounds)


def _where_cpu_goes(rounds: Sequence[Result]) -> str:
    """CPU seconds a minute by role: what a pipeline costs that has nothing else to do, too."""
    lines = []
    for side in ("headrace", "bare"):
        runs = [one[side] for one in rounds]
        roles = sorted({role for run in runs for role in run["cpu_by_role"]})
        shares = {
            role: median([60 * r["cpu_by_role"].get(role, 0.0) / r["seconds"] for r in runs])
            for role in roles
        }
        memory = median([run["memory_mb"] for run in runs])
        total = median([60 * run["cpu_s"] / run["seconds"] for run in runs])
        cells = ", ".join(f"{role} {shown(value)}" for role, value in shares.items())
        lines.append((side, shown(total), cells, f"{shown(memory)} MB"))
    return table(("side", "CPU seconds per minute", "by process", "memory"), lines)


def _defaults(rounds: Sequence[Result]) -> str:
    rows = []
    before = None
    for step in STEPS:
        runs = [one["steps"][step.name] for one in rounds if step.name in one["steps"]]
        if not runs:
            continue
        factor = {}
        for below in (PYSPARK, before):
            if below and below != step.name:
                found = figures.step_ratios(rounds, step.name, below, per_second)
                factor[below] = f"{median(found):.2f}x" if found else ""
        cpu = figures.step_ratios(rounds, step.name, PYSPARK, per_cpu_second)
        rows.append(
            (
                step.words if step.name in (PYSPARK, HEADRACE) else f"+ {step.words}",
                shown(median([per_second(run) for run in runs])),
                shown(median([per_cpu_second(run) for run in runs])),
                factor.get(before or "", ""),
                factor.get(PYSPARK, "1"),
                f"{median(cpu):.2f}x" if step.name != PYSPARK else "1",
                str(len(runs)),
            )
        )
        before = step.name
    head = ("settings", "records/s", "records/CPU-s", "this step")
    return table((*head, "relative to PySpark's", "the same per CPU-s", "rounds"), rows)


def _supervisor(rounds: Sequence[Result]) -> str:
    rows = []
    for kind in dict.fromkeys(one["kind"] for one in rounds):
        mine = [one for one in rounds if one["kind"] == kind]
        what = "idle" if kind == "idle" else "each with a batch per second"
        cpu = [one["cpu_percent"] for one in mine]
        rows.append(
            (
                f"{mine[0]['pipelines']} pipelines, {what}",
                f"{shown(median(cpu))} % ({spread(cpu)})",
                f"{shown(max(one['memory_mb'] for one in mine))} MB",
            )
        )
    return table(("load", "share of one core, median (range)", "peak memory"), rows)


def _rules(rounds: Sequence[Result]) -> str:
    cpu = [one["cpu_percent"] for one in rounds]
    findings = [one["findings_percent"] for one in rounds]
    row = (
        f"{rounds[0]['pipelines']} pipelines, each with a batch every 10 s",
        f"{shown(median(cpu))} % ({spread(cpu)})",
        f"{shown(median(findings))} %",
    )
    return table(("load", "share of one core, median (range)", "of it for findings"), [row])


def _start(rounds: Sequence[Result]) -> str:
    rows = []
    for kind, words in KINDS.items():
        took = [one["seconds"] for one in rounds if one["kind"] == kind]
        if took:
            cells = (f"{median(took):.1f} s", f"{max(took):.1f} s", str(len(took)))
            rows.append((words, *cells))
    return table(("what", "p50", "max", "measurements"), rows)


def _sql(rounds: Sequence[Result]) -> str:
    rows = []
    for question, words in WORDS.items():
        mine = [one for one in rounds if one["question"] == question]
        if not mine:
            continue
        ratios = figures.sql_ratios(rounds, question)
        took = [median([one[side] for one in mine]) for side in ("headrace_s", "alone_s")]
        command = median([one["command_s"] for one in mine])
        rows.append(
            (
                f"{words}, {mine[0]['files']:,} files",
                *(f"{seconds:.2f} s" for seconds in took),
                f"{median(ratios):.2f} ({spread(ratios)})",
                f"{command:.2f} s",
                str(len(mine)),
            )
        )
    head = ("query", "Headrace", "DuckDB alone", "ratio, median (range)")
    return table((*head, "the whole command", "measurements"), rows)


# What M6 asks of each output on files, in seconds.
PROMISED = {"history": 60, "logins": 60, "heartbeats": 5, "overloaded": 5, "silent": 10}


def _demo(rounds: Sequence[Result]) -> str:
    facts = [
        ("input lines", median([r["lines"] for r in rounds]), ""),
        ("share of all cores", median([r["cpu_percent_of_all"] for r in rounds]), " %"),
        ("CPU seconds per minute", median([60 * r["cpu_s"] / r["seconds"] for r in rounds]), ""),
        ("peak memory", max(r["memory_mb"] for r in rounds), " MB"),
        (
            "time until every query had committed a batch",
            median([r["start_s"] for r in rounds]),
            " s",
        ),
    ]
    costs = table(("the demo", ""), [(name, f"{shown(v)}{unit}") for name, v, unit in facts])
    ages = []
    for name in rounds[0]["fresh_p50_ms"]:
        p50 = median([r["fresh_p50_ms"][name] / 1000 for r in rounds])
        promised = f"{PROMISED[name]} s" if name in PROMISED else ""
        ages.append((name, f"{p50:.1f} s", promised))
    return costs + "\n\n" + table(("output", "freshness, p50", "target"), ages)


def _web(rounds: Sequence[Result]) -> str:
    rows = []
    for call in dict.fromkeys(one["call"] for one in rounds):
        mine = [one for one in rounds if one["call"] == call]
        ratios = figures.web_ratios(rounds, call)
        took = [median([one[f"{side}_p95_ms"] for one in mine]) for side in ("small", "large")]
        size = f"{mine[-1]['bytes'] / 1000:,.1f} kB"
        ratio = f"{median(ratios):.2f} ({spread(ratios)})"
        rows.append((call, *(f"{ms:.1f} ms" for ms in took), ratio, size))
    head = ("call", "small project, p95", "large project, p95", "ratio, median (range)", "response")
    return table(head, rows)


def _soak(rounds: Sequence[Result]) -> str:
    one = rounds[-1]
    weights = [
        (name, str(found["requests"]), f"{found['kb']:,.0f} kB")
        for name, found in one["weights"].items()
    ]
    windows = list(one["samples"][0]["heap_mb"])
    minutes = [
        (str(n), f"{at['web_mb']:.0f} MB", *(f"{at['heap_mb'][w]:.1f} MB" for w in windows))
        for n, at in enumerate(one["samples"])
    ]
    head = ("minute", "page's process", *(f"heap of the {w} window" for w in windows))
    return (
        table(("page, without cache", "requests", "size"), weights) + "\n\n" + table(head, minutes)
    )


def _exporters(rounds: Sequence[Result]) -> str:
    ratios = figures.exporter_ratios(rounds)
    rows = [
        (
            str(one["round"]),
            *(shown(per_second(one[side])) for side in ("on", "off")),
            *(shown(60 * one[s]["cpu_by_role"].get("relay", 0.0) / one[s]["seconds"])
              for s in ("on", "off")),
            f"{ratio:.3f}",
        )
        for one, ratio in zip(rounds, ratios, strict=True)
    ]  # fmt: skip
    rows.append(("**median**", "", "", "", "", f"**{median(ratios):.3f}**"))
    head = ("round", "on, records/s", "off, records/s", "on, relay's CPU-s per minute")
    return table((*head, "off, relay's CPU-s per minute", "ratio of records/s"), rows)


def _facts(result: Result) -> str:
    machine, asked = result["machine"], result["asked"]
    changed = " with uncommitted changes" if result["is_changed"] else ""
    busy = " **The machine was busy: do not rely on these figures.**" if asked["is_busy"] else ""
    much = f"{asked['records']:,} records" if "records" in asked else f"{asked['seconds']:g} s"
    spark, pin = machine["pyspark"], machine["pyspark_pinned"]
    other = "" if spark == pin else f" **(not {pin}, the pinned version)**"
    return (
        f"Measured {result['at']} at commit {result['commit']}{changed}: "
        f"{asked['rounds']} round{'s' * (asked['rounds'] != 1)} of {much}, "
        f"load {asked['load']:g} before the start. "
        f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_gb']} GB, "
        f"{machine['filesystem']}, {machine['system']}, Python {machine['python']}, "
        f"Java {machine['java']}, PySpark {spark}{other}.{busy}"
    )
