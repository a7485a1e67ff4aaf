"""What Headrace costs: the same pipeline through `headrace up` and as a bare script.

Text files, `from_json`, Parquet by day; as fast as possible, a fixed number of files a batch.
Compared are records per CPU-second of the whole process tree, the supervisor included.
"""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb

from bench import consumed, feed, machine, steady
from bench.figures import per_cpu_second
from bench.sides import Load, Running, bare_kept, runs_of, settings_in, through_headrace
from headrace.checkpoints import committed_files

ROWS_PER_FILE = 25_000
MAX_FILES = 4  # a batch: 100,000 rows
ROWS_PER_SECOND_MAX = 150_000  # per core, far more than any side can do
FILES_MAX = 10_000  # Spark lists the folder once for so many
SETTLE_S = 3.0


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    load = Load(_feed(folder, seconds), MAX_FILES)
    found = []
    for number in range(1, rounds + 1):
        sides = ("headrace", "bare") if number % 2 else ("bare", "headrace")
        one: dict[str, Any] = {"round": number, "order": list(sides)}
        settings = {}
        for side in sides:
            machine.settle(SETTLE_S)
            one[side], settings[side] = _side(folder / f"{number}-{side}", side, load, seconds)
        if settings["headrace"] != settings["bare"]:
            raise AssertionError(f"the two sides had different Spark settings: {settings}")
        ratio = per_cpu_second(one["headrace"]) / per_cpu_second(one["bare"])
        print(f"overhead {number}/{rounds}: ratio {ratio:.3f} {one}", flush=True)
        found.append(one)
    return found


def _feed(folder: Path, seconds: float) -> feed.Feed:
    lasts_s = 60.0 + steady.warm_s(seconds) + seconds
    rate = ROWS_PER_SECOND_MAX * machine.cores()
    files = feed.files_for(lasts_s, rate, ROWS_PER_FILE, FILES_MAX)
    return feed.make(folder / "feed", files=files, rows_per_file=ROWS_PER_FILE)


def _side(
    folder: Path, side: str, load: Load, seconds: float
) -> tuple[dict[str, Any], dict[str, str]]:
    opened: AbstractContextManager[Running] = (
        through_headrace(folder, load) if side == "headrace" else bare_kept(folder, load)
    )
    with opened as running:
        span = steady.measure(running, seconds)
        settings = settings_in(running.settings)
    if side == "headrace" and len(runs := runs_of(folder)) != 1:
        raise AssertionError(f"it was restarted while it was measured: {runs}")
    figures = steady.raw(span, load.feed, running.checkpoint)
    figures["checked_rows"] = check(running, load.feed)
    shutil.rmtree(folder)
    return figures, settings


def check(running: Running, given: feed.Feed) -> int:
    """What the sink has committed is what the source has read for it: rows, and a sum."""
    log = running.output / committed_files.LOG
    batch = max(int(p.name.split(".")[0]) for p in log.iterdir() if p.name[0].isdigit())
    upto = consumed.entry_of(running.checkpoint, batch)
    read = consumed.between(consumed.files(running.checkpoint), -1, upto)
    written = [one.path for one in committed_files.files(running.output)]
    query = "select count(*), sum(amount) from read_parquet($files)"
    with duckdb.connect() as conn:
        (found,) = conn.execute(query, {"files": written}).fetchall()
    expected = (given.rows(read), given.amount(read))
    if found != expected:
        raise AssertionError(f"rows and sum: {found} are committed, {expected} were read")
    return expected[0]
