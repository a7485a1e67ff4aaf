"""What the layout of the application is worth: all outputs of the demo, drained from a topic.

Once by `headrace up` on the demo's own project, once as the same outputs in plain PySpark with
Spark's own settings (scripts/metrics.py). Counted is the CPU of the whole tree from its start until
every output is complete, by the outputs themselves. The broker is not counted, nothing generates.
"""

from __future__ import annotations

import json
import resource
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import machine, topic, tree
from bench.figures import per_cpu_second
from bench.sides import LOGS, Running, bare, going_up, runs_of
from headrace import config
from headrace.checkpoints import positions
from headrace.connectors import jars
from headrace.demo import input_reader as demo_expected
from headrace.demo import kafka_transport, loss_count, outputs
from headrace.demo.folder import files as demo_files
from headrace.demo.loss_count import Expected, Outputs
from headrace.demo.paths import KAFKA, PIPELINE, DemoPaths
from headrace.model.state_paths import StatePaths

RECORDS = 1_000_000
DRAIN_S = 900.0
SILENCE_S = 240.0
SETTLE_S = 3.0
RAW = "rawLogs"
QUERIES = ("history", "logins", "heartbeats", "overloaded", "silent", "bad")
HEADRACE, NAIVE = "headrace", "naive"


@dataclass(frozen=True, slots=True)
class Given:
    """The input, and what has to come of it."""

    topics: topic.Topics
    records: int
    customers: Path
    want: Expected

    @property
    def overloads(self) -> int:
        """Heartbeats above the limit: what the plain side writes down."""
        return sum(n for row, n in self.want.beats.items() if row[6] > 99)

    @property
    def clusters(self) -> int:
        return len({row[5] for row in self.want.beats})


@dataclass(frozen=True, slots=True)
class Side:
    """One that runs: `pending` says what is not there yet, `silent` how many silences are."""

    running: Running
    begin: float
    checkpoints: Path
    used: Callable[[], dict[str, float]]  # CPU seconds by role, from the very start
    pending: Callable[[], list[str]]
    silent: Callable[[], int]


def run(folder: Path, rounds: int, seconds: float, records: int = RECORDS) -> list[dict[str, Any]]:
    with topic.running(folder) as broker:
        given = _given(folder, broker, records)
        found = []
        for number in range(1, rounds + 1):
            sides = (HEADRACE, NAIVE) if number % 2 else (NAIVE, HEADRACE)
            one: dict[str, Any] = {"round": number, "order": list(sides)}
            for side in sides:
                machine.settle(SETTLE_S)
                one[side] = _side(folder / f"{number}-{side}", side, given, number == 1)
            ratio = per_cpu_second(one[HEADRACE]) / per_cpu_second(one[NAIVE])
            print(f"kafka-app {number}/{rounds}: ratio {ratio:.2f} {one}", flush=True)
            found.append(one)
    return found


def _given(folder: Path, broker: topic.Topics, records: int) -> Given:
    broker.create(RAW)
    lines = list(topic.logs(records))
    broker.fill(RAW, lines)
    customers = folder / "customers.csv"
    customers.write_text(demo_files()["customers.csv"])
    return Given(
        broker,
        records,
        customers,
        loss_count.compute_expected(lines, demo_expected.customers(customers)),
    )


def _side(folder: Path, side: str, given: Given, is_first: bool) -> dict[str, Any]:
    """Silences take a minute that costs nothing: they are waited for in the first round only."""
    opened = _through_headrace if side == HEADRACE else _naive
    with opened(folder, given) as (one, check):
        figures = _drained(one, given.records)
        if is_first:
            missing = lambda: ["silences"] if one.silent() < given.clusters else []  # noqa: E731
            topic.await_all(missing, one.running.require_alive, SILENCE_S)
    figures |= check()
    shutil.rmtree(folder)
    return figures


def _drained(one: Side, records: int) -> dict[str, Any]:
    start: dict[str, float] = {}

    def pending() -> list[str]:
        if not start and any(one.checkpoints.glob("**/offsets/0")):
            start["cpu_s"] = sum(one.used().values())
        return one.pending()

    try:
        topic.await_all(pending, one.running.require_alive, DRAIN_S)
    except TimeoutError as exc:
        raise TimeoutError(f"{exc}\n{one.running.logs()}") from exc
    used, seconds = one.used(), time.monotonic() - one.begin
    return {
        "rows": records,
        "seconds": round(seconds, 2),
        "cpu_s": round(sum(used.values()), 2),
        "start_cpu_s": round(start["cpu_s"], 2),  # before the first batch was planned
        "cpu_by_role": {role: round(value, 2) for role, value in sorted(used.items())},
        "memory_mb": round(tree.memory_mb(one.running.root)),
    }


Opened = tuple[Side, Callable[[], dict[str, Any]]]


@contextmanager
def _through_headrace(folder: Path, given: Given) -> Iterator[Opened]:
    beats, alerts = f"beats-{folder.name}", f"alerts-{folder.name}"
    given.topics.create(beats, alerts)
    names = {'"clusterHeartbeats"': f'"{beats}"', '"headraceAlerts"': f'"{alerts}"'}
    home = topic.project(folder, given.topics.port, names)
    settings = config.load(home, KAFKA)
    demo = DemoPaths(home, f"data/{KAFKA}")
    with closing(kafka_transport.KafkaTransport(settings, demo)) as medium:

        def pending() -> list[str]:
            _require_one_run(home)
            opened = outputs.alerts_of(StatePaths(settings.state))
            return [
                *medium.pending(),
                *_short("heartbeats", medium.beats()[0], given.want.beats.total()),
                *_short("silent", _read(settings.checkpoint(PIPELINE, "silent"), beats),
                        given.want.beats.total()),
                *_short("overloaded", sum(a.query == "overloaded" for a in opened),
                        given.want.overloads.total()),
            ]  # fmt: skip

        def silent() -> int:
            return sum(a.query == "silent" for a in outputs.alerts_of(StatePaths(settings.state)))

        def check() -> dict[str, Any]:
            _require_one_run(home)
            with closing(kafka_transport.KafkaTransport(settings, demo)) as transport:
                return judged(given.want, transport.read_outputs())

        begin, before = time.monotonic(), _waited_for()
        with going_up(home, PIPELINE, "history", KAFKA) as (up, running):

            def used() -> dict[str, float]:
                """Until `headrace up` ends, the supervisor is below it."""
                if up.poll() is None:
                    return tree.cpu_s(up.pid)
                return {"up": _waited_for() - before, **tree.cpu_s(running.root)}

            yield Side(running, begin, home / "checkpoints", used, pending, silent), check


def _require_one_run(home: Path) -> None:
    if len(runs := runs_of(home, PIPELINE)) != 1:
        said = tree.tail(home / ".headrace" / "supervisor.log")
        raise AssertionError(f"it was restarted while it was measured: {len(runs)} runs\n{said}")


def _waited_for() -> float:
    """CPU seconds of children that have ended: `headrace up` defines before it starts anything."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def _naive(folder: Path, given: Given) -> Iterator[Opened]:
    beats = f"beats-{folder.name}"
    given.topics.create(beats)
    arguments = [given.topics.servers, RAW, beats, str(given.customers), str(folder)]
    checkpoints, silences = folder / "checkpoints", folder / "silent.jsonl"

    def pending() -> list[str]:
        read = {query: _read(str(checkpoints / query), RAW) for query in QUERIES}
        return [words for query in QUERIES for words in _short(query, read[query], given.records)]

    def silent() -> int:
        return len(silences.read_text().splitlines()) if silences.exists() else 0

    def check() -> dict[str, Any]:
        values = (one.value.decode("utf-8", "replace") for one in given.topics.records(beats))
        logins = json.loads((folder / "logins.json").read_text())
        rows = (folder / "overloaded.jsonl").read_text().splitlines()
        _same("overloaded", len(rows), given.overloads)
        found = Outputs(
            history=Counter(outputs.history_rows(folder / "metrics")),
            beats=Counter(map(loss_count.beat_row, values)),
            logins={int(minute) * 1_000_000: n for minute, n in logins.items()},
            quarantined=Counter(_values(folder / "bad")),
        )
        return judged_leniently(given.want, found, given.records)

    begin, settings = time.monotonic(), jars.settings({"kafka"}, {})
    with bare(folder, "metrics.py", arguments, settings, LOGS) as running:
        used = lambda: tree.cpu_s(running.root)  # noqa: E731
        yield Side(running, begin, checkpoints, used, pending, silent), check


def judged(want: Expected, found: Outputs) -> dict[str, Any]:
    """Every output of Headrace's is exactly what the input says, also the heartbeats."""
    counted = loss_count.count(want, found)
    if not counted.is_right:
        raise AssertionError(f"an answer is wrong: {counted}")
    return {"late": counted.late, "mistaken": 0}


def judged_leniently(want: Expected, found: Outputs, records: int) -> dict[str, Any]:
    """No log may be lost or doubled. `from_json` takes records that are no UTF-8 for logs: these
    are counted, and every record is somewhere."""
    lost, more = want.history - found.history, found.history - want.history
    _same("rows that are lost", lost.total(), 0)
    _same("rows in all", found.history.total() + found.quarantined.total(), records)
    if twice := [row for row in more if row in want.history]:
        raise AssertionError(f"rows are doubled: {twice[:3]}")
    beats = loss_count.count_rows(want.beats, found.beats)
    _same("heartbeats", (beats.lost, beats.doubled), (0, 0))
    logins = loss_count.count_minutes(want.logins, found.logins, want.newest_login)
    if logins.lost or logins.doubled > more.total():
        raise AssertionError(f"the logins are wrong: {logins}")
    return {"late": logins.late, "mistaken": more.total()}


def _same(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {found} instead of {expected}")


def _short(what: str, found: int, expected: int) -> list[str]:
    return [f"{what}: {found:,} of {expected:,}"] if found < expected else []


def _read(checkpoint: str, name: str) -> int:
    return sum((positions.read(checkpoint) or {}).get(name, {}).values())


def _values(folder: Path) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    for path in outputs.files(folder):
        yield from pq.read_table(path, columns=["value"]).column("value").to_pylist()
