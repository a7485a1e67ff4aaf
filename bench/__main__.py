"""`python -m bench [NAME]… [--rounds N] [--seconds S] [--write]`: overhead, defaults, supervisor,
rules, start, sql, demo, web, soak, exporters; and those on a real Kafka broker: kafka-app,
kafka-history, kafka-latency, notices.

Without names all but those on Kafka, which `make bench-kafka` runs. Prints what it measures and
keeps it in artifacts/bench; with --write the raw rounds also go into bench/results.json and the
tables into docs/benchmarks.md. `--page` only writes the tables again.
Ends with 1 where a target is missed, 3 where the machine is not fit for measuring.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from bench import (
    defaults,
    demo,
    exporters,
    figures,
    kafka_app,
    kafka_history,
    kafka_latency,
    machine,
    notices,
    overhead,
    page,
    rules,
    soak,
    sql,
    start,
    supervisor,
    tree,
    web,
)

EXPERIMENTS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "overhead": overhead.run,
    "defaults": defaults.run,
    "supervisor": supervisor.run,
    "rules": rules.run,
    "start": start.run,
    "sql": sql.run,
    "demo": demo.run,
    "web": web.run,
    "soak": soak.run,
    "exporters": exporters.run,
    "kafka-app": kafka_app.run,
    "kafka-history": kafka_history.run,
    "kafka-latency": kafka_latency.run,
    "notices": notices.run,
}
ON_KAFKA = (
    "kafka-app",
    "kafka-history",
    "kafka-latency",
    "notices",
)  # only by name: they need a broker
OF_THEIR_OWN = {"soak": (1, soak.LENGTH_S)}  # rounds and seconds, whatever was asked for
ROUNDS, SECONDS = 5, 60.0
# Where it was not asked for: rounds, and seconds or records, which is what they are measured by.
USUAL_ROUNDS = dict.fromkeys(ON_KAFKA, 3)
USUAL_SECONDS = {"kafka-latency": kafka_latency.LENGTH_S, "notices": notices.LENGTH_S}
USUAL_RECORDS = {"kafka-app": kafka_app.RECORDS, "kafka-history": kafka_history.RECORDS}
RESULTS = machine.REPO / "bench" / "results.json"
KEPT = machine.REPO / "artifacts" / "bench"  # of every run, also without --write; not in git
PAGE = machine.REPO / "docs" / "benchmarks.md"
FREE_GB_MIN = 20
UNFIT = 3


def main(arguments: list[str] | None = None) -> int:
    given = parsed(arguments)
    if given.page:
        write_page(read_results())
        return 0
    load = machine.load()
    if why := unfit(load, given.busy, shutil.disk_usage(tempfile.gettempdir()).free / 1e9):
        print(why, file=sys.stderr)
        return UNFIT
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    results: dict[str, Any] = {}
    for name in given.names or [name for name in EXPERIMENTS if name not in ON_KAFKA]:
        results[name] = measure(name, asked_for(name, given), load)
        # Kept first: an hour of measuring is not lost to a fault in a table.
        _keep(KEPT / f"{name}.json", results[name])
        if given.write:
            merged = {**read_results(), name: results[name]}
            _keep(RESULTS, merged)
            write_page(merged)
        print(f"\n{page.section(name, results)}\n", flush=True)
    return 0 if all(target.is_met(found) for target, found in figures.outcomes(results)) else 1


def asked_for(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """How often and how much, as asked for or as usual."""
    rounds = given.rounds or USUAL_ROUNDS.get(name, ROUNDS)
    seconds = given.seconds or USUAL_SECONDS.get(name, SECONDS)
    rounds, seconds = OF_THEIR_OWN.get(name, (rounds, seconds))
    asked = {"rounds": rounds, "seconds": seconds}
    usual = USUAL_RECORDS.get(name)
    return {**asked, "records": given.records or usual} if usual else asked


def measure(name: str, asked: dict[str, Any], load: float) -> dict[str, Any]:
    """In a folder of its own that is gone afterwards, with every process that worked in it."""
    folder = Path(tempfile.mkdtemp(prefix=f"headrace-bench-{name}-"))
    tree.use_scratch(folder / "tmp")
    begun = machine.moment()
    is_busy = load > machine.LOAD_MAX
    try:
        found = EXPERIMENTS[name](folder, **asked)
        facts = machine.facts(folder)
    finally:
        tree.end_all()
        shutil.rmtree(folder, ignore_errors=True)
    asked = {**asked, "load": load, "is_busy": is_busy}
    return {**begun, "machine": facts, "asked": asked, "rounds": found}


def unfit(load: float, is_forced: bool, free_gb: float) -> str | None:
    if free_gb < FREE_GB_MIN:
        return f"{free_gb:.0f} GB are free for temporary files; {FREE_GB_MIN} GB are needed."
    if load > machine.LOAD_MAX and not is_forced:
        return (
            f"The load of this machine is {load:g}, more than {machine.LOAD_MAX:g}: what else runs"
            " would be measured too.\n"
            "Wait until it is idle, or give --busy: the figures then say so."
        )
    return None


def read_results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def _keep(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def write_page(results: dict[str, Any]) -> None:
    PAGE.write_text(page.rendered(PAGE.read_text(), results))


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # through every `finally`, so that nothing is left behind


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}; on Kafka 3")
    parser.add_argument("--seconds", type=float, help="of steady batches, each side")
    parser.add_argument("--records", type=int, help="in the topic, where one is drained")
    parser.add_argument("--write", action="store_true", help="into results.json and the page")
    parser.add_argument("--page", action="store_true", help="only write the page's tables again")
    parser.add_argument("--busy", action="store_true", help="measure although the machine is busy")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in EXPERIMENTS]:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    if any(n is not None and n < 1 for n in (given.rounds, given.seconds, given.records)):
        parser.error("--rounds, --seconds and --records have to be at least 1")
    return given


if __name__ == "__main__":
    sys.exit(main())
