"""The promise: `kill -9` of anything, at any moment; nothing lost, nothing doubled, nothing torn.

One long run takes all the kills of a kind list, so that the proof costs minutes, not hours.
`make test` kills twice in each way, `make chaos` ten times.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e import batch_run, rig
from headrace.testing import row_comparison

PIPELINE = "kills"
QUERIES = ("history", "counts", "batches")
RECOVERY_S = 90.0
SEED = int(os.environ.get("HEADRACE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)

Kill = Callable[[rig.Project], None]


def kill_python(project: rig.Project) -> None:
    rig.kill(project.status(PIPELINE)["pid"])


def kill_jvm(project: rig.Project) -> None:
    rig.kill(project.status(PIPELINE)["jvm_pid"])


def kill_both(project: rig.Project) -> None:
    found = project.status(PIPELINE)
    rig.kill(found["pid"], found["jvm_pid"])


def kill_supervisor(project: rig.Project) -> None:
    before = project.status(PIPELINE)["jvm_pid"]
    rig.kill(project.supervisor_pid())
    project.headrace("up")
    after = project.status(PIPELINE)["jvm_pid"]
    assert before == after, "a new supervisor must adopt the driver, not restart it"


def kill_supervisor_and_driver(project: rig.Project) -> None:
    found = project.status(PIPELINE)
    rig.kill(project.supervisor_pid(), found["pid"], found["jvm_pid"])
    project.headrace("up")


KILLS: dict[str, Kill] = {
    "python": kill_python,
    "jvm": kill_jvm,
    "both": kill_both,
    "supervisor": kill_supervisor,
    "supervisor and driver": kill_supervisor_and_driver,
}


def committed_batches(project: rig.Project) -> dict[str, int]:
    found = project.status(PIPELINE)
    return {q["name"]: q["batch"] for q in found.get("queries", []) if q["batch"] is not None}


def wait_for_new_commits(project: rig.Project, timeout_s: float = RECOVERY_S) -> None:
    """Every query commits a batch that it had not committed before."""
    before = newest_commits(project)

    def is_past() -> bool:
        now = newest_commits(project)
        return all(now[q] > before[q] for q in QUERIES)

    rig.eventually("every query commits a new batch", is_past, timeout_s)


def newest_commits(project: rig.Project) -> dict[str, int]:
    """From the checkpoints themselves: no opinion of Headrace's is asked."""
    found = {}
    for query in QUERIES:
        folder = project.folder / "checkpoints" / PIPELINE / query / "v1" / "commits"
        names = [int(p.name) for p in folder.glob("*") if p.name.isdigit()]
        found[query] = max(names, default=-1)
    return found


@pytest.mark.e2e
def test_two_kills_of_every_kind_lose_and_double_nothing(tmp_path: Path) -> None:
    survive(tmp_path, rounds=2)


@pytest.mark.chaos
@pytest.mark.e2e
@pytest.mark.timeout(3600)
def test_ten_kills_of_every_kind_lose_and_double_nothing(tmp_path: Path) -> None:
    survive(tmp_path, rounds=10)


def survive(tmp_path: Path, rounds: int) -> None:
    print(f"seed {SEED} (HEADRACE_SEED repeats it)")
    rng = random.Random(SEED)
    project = rig.Project.copy("kills", tmp_path / "project")
    generator = rig.Generator(project.folder / "incoming", every_s=0.4, seed=SEED)
    data = project.folder / "data"
    history = rig.Reader("history", lambda: rig.history_rows(data / "history"), generator.sizes)
    batches = rig.Reader("batches", lambda: rig.batch_rows(data / "batches"), generator.sizes)
    jvms = rig.JvmCount(project.state)
    schedule = [name for name in KILLS for _ in range(rounds)]
    rng.shuffle(schedule)

    generator.start()
    try:
        with rig.looking(history, batches, jvms):
            project.headrace("up")
            wait_for_new_commits(project)
            for name in schedule:
                time.sleep(rng.uniform(0.0, 2.5))  # the random moment
                print(f"{time.strftime('%X')} kill {name}", flush=True)
                KILLS[name](project)
                wait_for_new_commits(project)
            generator.stop()
            wait_until_all_is_committed(project, generator)
            project.headrace("down")
    finally:
        generator.stop()
        project.headrace("down", code=None)

    assert history.faults + batches.faults + jvms.faults == []
    assert history.reads > 0
    assert jvms.looks > 0
    assert project.marked() == [], "processes left after down"
    assert_same_as_batch(project, generator)


def wait_until_all_is_committed(project: rig.Project, generator: rig.Generator) -> None:
    data, rows = project.folder / "data", len(generator.rows)
    expected = rig.expected_counts(generator)
    rig.eventually(
        "all input is committed by every query",
        lambda: (
            len(rig.history_rows(data / "history")) >= rows
            and len(rig.batch_rows(data / "batches")) >= rows
            and rig.count_rows(data / "counts") == expected
        ),
        timeout_s=120.0,
        every_s=0.5,
    )


def assert_same_as_batch(project: rig.Project, generator: rig.Generator) -> None:
    """The same definitions, run as a batch over the same input, and plain Python beside them."""
    data = project.folder / "data"
    batch = batch_run.run(project.folder, PIPELINE)
    rows = [(r["file"], r["id"], r["key"], r["amount"], r["sha"]) for r in batch["history"]]
    counts = {f"{r['start']}-{r['key']}": (r["n"], r["total"]) for r in batch["counts"]}

    assert row_comparison.compare(rig.expected_rows(generator), rows).is_empty
    assert rig.expected_counts(generator) == counts
    for name, got in (
        ("history", rig.history_rows(data / "history")),
        ("batches", rig.batch_rows(data / "batches")),
    ):
        difference = row_comparison.compare(rows, got)
        assert difference.is_empty, f"{name}: {difference}"
    assert rig.count_rows(data / "counts") == counts
