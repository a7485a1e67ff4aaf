"""What Headrace's Spark settings are worth: a windowed count with PySpark's and with ours.

All are bare scripts on the same input. The steps lead from PySpark's own settings to all of ours,
one more at a time, so that the page can say which earns what. Each answer is checked.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import consumed, feed, machine, steady
from bench.figures import per_cpu_second, per_second
from bench.sides import Running, bare, our_settings
from headrace.driver.session import ROCKSDB, STREAMING

ROWS_PER_FILE = 25_000
MAX_FILES = 4
ROWS_PER_SECOND_MAX = 150_000
FILES_MAX = 10_000
SETTLE_S = 3.0


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    words: str  # what is new in it
    keys: tuple[str, ...] | None  # of our settings, on top of the step before; None: all of them


PYSPARK, HEADRACE = "pyspark", "headrace"
STEPS = (
    Step(PYSPARK, "PySpark's own settings", ()),
    Step("partitions", "8 shuffle partitions instead of 200", ("spark.sql.shuffle.partitions",)),
    Step(
        "rocksdb",
        "state in RocksDB instead of the heap, with a limit of 512 MB",
        (
            STREAMING + "stateStore.providerClass",
            ROCKSDB + "boundedMemoryUsage",
            ROCKSDB + "maxMemoryUsageMB",
        ),
    ),
    Step(
        "changelog",
        "changelog checkpoints instead of full snapshots",
        (ROCKSDB + "changelogCheckpointing.enabled",),
    ),
    Step(
        "file-manager",
        "FileSystemBasedCheckpointFileManager",
        (STREAMING + "checkpointFileManagerClass",),
    ),
    Step("master", "at least 4 task threads: local[4] instead of local[*]", ("spark.master",)),
    Step(HEADRACE, "all other Headrace settings (no Spark UI, FAIR, limits)", None),
)


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Both ends in every round, the steps between them in every second one."""
    lasts_s = 60.0 + steady.warm_s(seconds) + seconds
    rate = ROWS_PER_SECOND_MAX * machine.cores()
    files = feed.files_for(lasts_s, rate, ROWS_PER_FILE, FILES_MAX)
    given = feed.make(folder / "feed", files=files, rows_per_file=ROWS_PER_FILE)
    found = []
    for number in range(1, rounds + 1):
        steps: dict[str, Any] = {}
        for name in order(number):
            machine.settle(SETTLE_S)
            steps[name] = _step(folder / f"{number}-{name}", name, given, seconds)
            speed = f"{per_second(steps[name]):,.0f}/s, {per_cpu_second(steps[name]):,.0f}/CPU-s"
            print(f"defaults {number}/{rounds} {name}: {speed} {steps[name]}", flush=True)
        found.append({"round": number, "steps": steps})
    return found


def order(number: int) -> list[str]:
    """Forwards and backwards in turn, so that whatever drifts is in favour of nobody."""
    names = [step.name for step in STEPS] if number % 2 else [PYSPARK, HEADRACE]
    return names if number % 4 in (1, 2) else names[::-1]


def settings_of(name: str, ours: Mapping[str, str]) -> dict[str, str]:
    """The settings of a step: those of all steps up to it."""
    found: dict[str, str] = {}
    for step in STEPS:
        keys = tuple(ours) if step.keys is None else step.keys
        found |= {key: ours[key] for key in keys}
        if step.name == name:
            return found
    raise ValueError(f"no step {name!r}; there are {[step.name for step in STEPS]}")


def _step(folder: Path, name: str, given: feed.Feed, seconds: float) -> dict[str, Any]:
    answer = folder / "answer.json"
    arguments = [str(given.folder), str(folder / "checkpoint"), str(MAX_FILES), str(answer)]
    settings = settings_of(name, our_settings(folder))
    with bare(folder, "counts.py", arguments, settings) as running:
        span = steady.measure(running, seconds)
    figures = steady.raw(span, given, running.checkpoint)
    figures["checked_rows"] = check(running, given, answer)
    shutil.rmtree(folder)
    return figures


def check(running: Running, given: feed.Feed, answer: Path) -> int:
    """The state of the last committed batch is the count over exactly the files it has read."""
    told = json.loads(answer.read_text())
    found = {(start, key): count for start, key, count in told["counts"]}
    upto = consumed.entry_of(running.checkpoint, told["batch"])
    expected = given.counts(consumed.between(consumed.files(running.checkpoint), -1, upto))
    if found != dict(expected):
        wrong = sorted(g for g in found.keys() | expected.keys() if found.get(g) != expected[g])
        raise AssertionError(f"{len(wrong)} of {len(expected)} counts are wrong: {wrong[:5]}")
    return sum(expected.values())
