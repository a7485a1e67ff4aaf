"""The history alone: parse, join, Parquet by day, drained from a topic by available-now.

Four sides: Headrace with `hr.parse_json`, Headrace with plain `from_json`, a bare script with
Headrace's settings, a bare script with Spark's own. Measured between two commits, the first batches
and the last one left out, so neither start nor end is in it. The two that are alike run at the same
time: they differ by less than the machine does from minute to minute, and each keeps to one core.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from bench import machine, steady, topic, tree
from bench.figures import per_cpu_second
from bench.sides import LOGS, Running, bare, going_up, headrace, our_settings, runs_of, settings_in
from headrace.checkpoints import committed_files, positions
from headrace.connectors import jars
from headrace.demo import input_reader as demo_expected
from headrace.demo.folder import files as demo_files

RECORDS = 6_000_000
DIFFERENT = 200_000  # lines; then the same again
MAX_ROWS = 200_000
WARM_BATCHES = 15  # Java's compilers take a quarter of the CPU before, a tenth after
BATCHES_MIN = WARM_BATCHES + 3
END_S = 300.0
SETTLE_S = 3.0
RAW = "rawLogs"
SIDES = ("checked", "plain", "bare", "naive")
OURS = ("checked", "plain")  # through Headrace
# Together; two JVMs that do the same differ by some hundredths, so it takes several.
PAIRS = 4

SETTINGS = """\
[project]
name = "bench"

[sources.raw_logs]
kind = "kafka"
servers = "{servers}"
subscribe = "rawLogs"
starting = "earliest"
max_rows = {max_rows}

[sources.customers]
kind = "csv"
path = "customers.csv"
schema = "customer_id int, customer string, plan string"
options = {{ header = true }}
table = true
"""


@dataclass(frozen=True, slots=True)
class Given:
    topics: topic.Topics
    records: int
    lines: tuple[bytes, ...]  # each is in the topic records / len(lines) times

    def expected(self, *, is_strict: bool) -> tuple[int, int]:
        """Rows, and a sum over their moments: another row cannot stand in for one."""
        found = [demo_expected.log_of(line if is_strict else as_taken(line)) for line in self.lines]
        moments = [log.at // 1000 - BEGIN_MS for log in found if log]
        times = self.records // len(self.lines)
        return times * len(moments), times * sum(moments)


BEGIN_MS = round(topic.BEGINNING * 1000)


def run(folder: Path, rounds: int, seconds: float, records: int = RECORDS) -> list[dict[str, Any]]:
    with topic.running(folder) as broker:
        given = _given(broker, records)
        found = []
        for number in range(1, rounds + 1):
            ran: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
            for sides in order(number):
                machine.settle(SETTLE_S)
                for side, figures in _run(folder / str(number), sides, given).items():
                    ran[side].append(figures)
            one: dict[str, Any] = {side: together(runs) for side, runs in ran.items()}
            one["round"] = number
            speeds = {side: round(per_cpu_second(one[side])) for side in SIDES}
            print(f"kafka-history {number}/{rounds}: {speeds} {one}", flush=True)
            found.append(one)
    return found


def order(number: int) -> list[tuple[str, ...]]:
    """What runs together. Nobody is always first: neither in a pair nor of the others."""
    pairs = [("plain", "bare"), ("bare", "plain")] * (PAIRS // 2)
    alone = [("checked",), ("naive",)]
    if number % 2 == 0:
        pairs.reverse()
        alone.reverse()
    half = PAIRS // 2
    return [*pairs[:half], *alone, *pairs[half:]]


def together(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Runs of one side as if they were one."""
    used = [run["cpu_by_role"] for run in runs]
    roles = sorted({role for one in used for role in one})
    summed = {key: round(sum(run[key] for run in runs), 2)
              for key in ("rows", "batches", "seconds", "cpu_s")}  # fmt: skip
    return {
        **summed,
        "cpu_by_role": {r: round(sum(one.get(r, 0.0) for one in used), 2) for r in roles},
        "memory_mb": max(run["memory_mb"] for run in runs),
        "mistaken": max(run["mistaken"] for run in runs),
        "runs": len(runs),
    }


def _given(broker: topic.Topics, records: int) -> Given:
    lines = tuple(topic.logs(min(DIFFERENT, records // BATCHES_MIN)))
    times = records // len(lines)
    broker.create(RAW)
    broker.fill(RAW, (line for _ in range(times) for line in lines))
    return Given(broker, times * len(lines), lines)


def _run(folder: Path, sides: Sequence[str], given: Given) -> dict[str, dict[str, Any]]:
    """Each side drains the topic to its end and stops by itself before any is ended."""
    homes = {side: folder / side for side in sides}
    with ExitStack() as stack:
        running = {side: stack.enter_context(_opened(homes[side], side, given)) for side in sides}
        with ThreadPoolExecutor(len(sides)) as pool:
            measured = pool.map(lambda side: _measured(running[side], given), sides)
            figures = dict(zip(sides, measured, strict=True))
        for side in sides:
            _await_end(homes[side], side, running[side], given)
    for side in sides:
        figures[side]["mistaken"] = check(running[side].output, given, is_strict=side == "checked")
    shutil.rmtree(folder)
    return figures


def _await_end(home: Path, side: str, running: Running, given: Given) -> None:
    topic.await_all(
        lambda: [] if _is_over(running, given) else ["the last batch"], lambda: None, END_S
    )
    if side not in OURS:
        left = [f"the script of {side}"]
        topic.await_all(lambda: left if tree.is_alive(running.root) else [], lambda: None, END_S)
        return
    headrace(home, "wait", side, "--until", "stopped", "--timeout", "120s")
    ours = settings_in(running.settings)
    if ours != (same := _ours(home)):
        raise AssertionError(f"the sides have different settings: {ours} {same}")
    if len(runs := runs_of(home, side)) != 1:
        raise AssertionError(f"it was restarted while it was measured: {runs}")


def _measured(running: Running, given: Given) -> dict[str, Any]:
    """From the commit of the last warm batch to that of the last but one."""
    last = given.records // _max_rows(given) - 2
    steady.await_commit(running, WARM_BATCHES - 1, steady.START_S)
    begin, before = time.monotonic(), tree.cpu_s(running.root)
    steady.await_commit(running, last, END_S)
    elapsed, after = time.monotonic() - begin, tree.cpu_s(running.root)
    used = {role: round(now - before.get(role, 0.0), 2) for role, now in sorted(after.items())}
    read = [_read(running, batch) for batch in (WARM_BATCHES - 1, last)]
    return {
        "rows": read[1] - read[0],
        "batches": last - WARM_BATCHES + 1,
        "seconds": round(elapsed, 2),
        "cpu_s": round(sum(used.values()), 2),
        "cpu_by_role": used,
        "memory_mb": round(tree.memory_mb(running.root)),
    }


def _read(running: Running, batch: int) -> int:
    return sum(positions.at(running.checkpoint, batch).get(RAW, {}).values())


def _is_over(running: Running, given: Given) -> bool:
    found = positions.read(str(running.checkpoint)) or {}
    return sum(found.get(RAW, {}).values()) == given.records


def _max_rows(given: Given) -> int:
    return min(MAX_ROWS, len(given.lines))


def _opened(folder: Path, side: str, given: Given) -> AbstractContextManager[Running]:
    return (_through_headrace if side in OURS else _bare)(folder, side, given)


@contextmanager
def _through_headrace(folder: Path, side: str, given: Given) -> Iterator[Running]:
    shutil.copytree(LOGS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for other in (folder / "pipelines").glob("*.py"):
        if other.stem != side:
            other.unlink()
    text = SETTINGS.format(servers=given.topics.servers, max_rows=_max_rows(given))
    (folder / "headrace.toml").write_text(text)
    (folder / "customers.csv").write_text(demo_files()["customers.csv"])
    with going_up(folder, side, side, is_drained=False) as (_, running):  # it ends by itself
        yield running


@contextmanager
def _bare(folder: Path, side: str, given: Given) -> Iterator[Running]:
    customers = folder.with_suffix(".csv")
    customers.parent.mkdir(exist_ok=True)
    customers.write_text(demo_files()["customers.csv"])
    output, checkpoint = str(folder / "output"), str(folder / "checkpoint")
    places = [given.topics.servers, RAW, str(customers), output, checkpoint]
    settings = _ours(folder) if side == "bare" else jars.settings({"kafka"}, {})
    arguments = [*places, str(_max_rows(given))]
    with bare(folder, "history.py", arguments, settings, LOGS) as running:
        yield running


def _ours(folder: Path) -> dict[str, str]:
    found = our_settings(folder, jars.settings({"kafka"}, {}))
    return {key: value for key, value in found.items() if key != "spark.app.name"}


def as_taken(line: bytes) -> bytes:
    """As `from_json` takes it: bytes that are no UTF-8 are replaced without a word."""
    return line.decode("utf-8", "replace").encode()


def check(output: Path, given: Given, *, is_strict: bool) -> int:
    """Rows, their sum and their days. -> damaged records that were taken for logs."""
    files = [one.path for one in committed_files.files(output) if one.size > 0]
    query = """
        select count(*), sum(epoch_ms(timestamp) - $begin),
          count(*) filter (strftime(timestamp at time zone 'UTC', '%Y-%m-%d') <> date::varchar)
        from read_parquet($files, hive_partitioning = true)"""
    with duckdb.connect() as conn:
        (found,) = conn.execute(query, {"files": files, "begin": BEGIN_MS}).fetchall()
    expected = (*given.expected(is_strict=is_strict), 0)
    if found != expected:
        raise AssertionError(f"rows, sum, in the wrong day: {found} instead of {expected}")
    return int(found[0]) - given.expected(is_strict=True)[0]
