"""What the supervisor reads and keeps of runs: events, folders, logs, the process table."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from headrace import logs, process_identity
from headrace.health.run_view import RunView
from headrace.model.runs import Ending, Exit, Orders, Process, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import run_folders, supervisor_lookup
from headrace.supervisor import process
from headrace.supervisor.run_outcome import build_past_run, could_not_start, infer_exit
from supervisor.conftest import until

SPEC = RunSpec("orders-20250101T000000-aaaa", "orders", "/p", "/s", "v1", "dev", "f.py", at=10.0)


def test_orders_and_outcomes_are_read_back(tmp_path: Path) -> None:
    places = StatePaths(tmp_path)
    run_folders.write_spec(places, SPEC)
    orders = Orders(drain_at=50.0, drain_reason="stopped")
    past = build_past_run(SPEC, Exit("failed", 1, 30.0, query="q"), RunView(), 30.0)

    run_folders.write_orders(places, SPEC.run, orders)
    run_folders.write_outcome(places, past, 30.0)

    assert run_folders.orders_of(places, SPEC.run, now=99.0) == orders
    assert (
        run_folders.orders_of(places, SPEC.run, now=40.0).drain_at == 40.0
    )  # the clock was set back
    assert run_folders.outcome_of(places, SPEC, now=99.0) == past
    assert past.lived_s == 20.0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"exit": 3}', '{"exit": {"ending": "?"}}'])
def test_a_broken_outcome_counts_as_not_written(tmp_path: Path, content: str) -> None:
    places = StatePaths(tmp_path)
    run_folders.write_spec(places, SPEC)
    (places.run(SPEC.run) / "outcome.json").write_text(content)
    (places.run(SPEC.run) / "exit.json").write_text(content)

    assert run_folders.outcome_of(places, SPEC, 1.0) is None
    assert run_folders.exit_of(places, SPEC.run) is None


def test_runs_are_listed_in_time_and_others_left_out(tmp_path: Path) -> None:
    places = StatePaths(tmp_path)
    late = replace(SPEC, run="orders-20250102T000000-0000", at=20.0)
    define = replace(SPEC, run="define-20250102T000000-0000", define=("f.py",))
    for spec in (late, SPEC, define):
        run_folders.write_spec(places, spec)
    (places.runs / "orders-20250103T000000-0000").mkdir()
    (places.runs / "notes").mkdir()

    assert run_folders.specs(places) == {"orders": [SPEC, late]}


def test_only_the_newest_run_folders_are_kept(tmp_path: Path) -> None:
    places = StatePaths(tmp_path)
    specs = [replace(SPEC, run=f"orders-20250101T000000-{n:04d}", at=n) for n in range(60)]
    for spec in specs:
        run_folders.write_spec(places, spec)

    gone = run_folders.prune(places, specs)

    assert gone == [spec.run for spec in specs[:10]]
    assert run_folders.specs(places) == {"orders": specs[10:]}


def test_events_are_kept_of_the_ten_newest_runs_and_how_they_ended_of_all(tmp_path: Path) -> None:
    places = StatePaths(tmp_path)
    specs = [replace(SPEC, run=f"orders-20250101T000000-{n:04d}", at=n) for n in range(15)]
    for spec in specs:
        run_folders.write_spec(places, spec)
        for path in (places.events(spec.run), places.exit(spec.run)):
            path.write_text("{}\n")

    assert run_folders.prune(places, specs) == []

    assert [places.events(s.run).exists() for s in specs] == [False] * 5 + [True] * 10
    assert all(places.exit(s.run).exists() and places.spec(s.run).exists() for s in specs)


@pytest.mark.parametrize(
    ("orders", "code", "ending"),
    [
        (Orders(), None, "vanished"),
        (Orders(), -9, "vanished"),
        (Orders(), 1, "failed"),
        (Orders(), 0, "failed"),
        (Orders(kill_at=1.0, kill_reason="silent", by_watchdog=True), -9, "stalled"),
        (Orders(drain_at=1.0, kill_at=2.0, kill_reason="deaf"), -9, "cut"),
        (Orders(drain_at=1.0), -15, "cut"),
    ],
)
def test_an_end_without_exit_json_is_named_by_what_was_ordered(
    orders: Orders, code: int | None, ending: str
) -> None:
    assert infer_exit(orders, 1.0, code).ending == ending


def test_a_driver_stopped_before_its_first_query_had_nothing_to_cut() -> None:
    ended = infer_exit(Orders(drain_at=1.0), 1.0, -15, had_queries=False)

    assert (ended.ending, ended.code) == (Ending.DRAINED, 0)


def test_dying_in_the_same_way_is_the_same_failure_at_any_time(tmp_path: Path) -> None:
    found = set()
    for second in (10, 59):
        log = tmp_path / f"{second}.log"
        log.write_text(f"started\n2025-01-01 10:00:{second},120 error 7f3a{second}bc cannot fork\n")
        found.add(infer_exit(Orders(), 1.0, 1, log).fingerprint)
    (tmp_path / "other.log").write_text("2025-01-01 10:00:10,120 error no such module\n")
    other = infer_exit(Orders(), 1.0, 1, tmp_path / "other.log").fingerprint

    assert len(found) == 1
    assert other not in found


def test_a_start_that_a_full_disk_refused_says_so() -> None:
    exit_ = could_not_start(OSError(errno.ENOSPC, "No space left on device", "/x/run.json"), 1.0)
    strange = could_not_start(FileNotFoundError(errno.ENOENT, "No such file", "/gone"), 1.0)

    assert (exit_.failure, exit_.kind) == ("disk-full", "retry")
    assert "disk full (No space left on device: /x/run.json)" in str(exit_.error)
    assert (strange.failure, strange.kind) == ("spawn", "retry")


def test_a_log_that_grows_is_cut_while_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    with open(path, "ab", buffering=0) as writer:
        writer.write(b"old\n" * 100)

        assert not logs.keep_short(path, 400)
        assert logs.keep_short(path, 399)
        writer.write(b"new\n")

    assert path.read_bytes() == b"new\n"
    assert (tmp_path / "driver.log.1").read_bytes() == b"old\n" * 100


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], level = before
    root.setLevel(level)
    logs._always.clear()


@pytest.mark.usefixtures("root_logger")
def test_log_lines_say_what_they_are_about() -> None:
    out = io.StringIO()
    logs.configure(stream=out, run="r-1")

    with logs.about(pipeline="orders"):
        logging.getLogger("headrace.x").info("started %s", "well", extra={"query": "q"})
    logging.getLogger("headrace.x").info("alone")
    logging.getLogger("other").info("not shown")

    first, second = out.getvalue().splitlines()
    assert first.endswith("started well  [pipeline=orders run=r-1 query=q]")
    assert first[10] == "T"
    assert "Z info" in first
    assert second.endswith("alone  [run=r-1]")


@pytest.mark.usefixtures("root_logger")
def test_log_lines_as_json_are_one_object_each() -> None:
    out = io.StringIO()
    logs.configure(format="json", stream=out)

    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("headrace.x").exception("failed")

    (body,) = [json.loads(text) for text in out.getvalue().splitlines()]
    assert (body["level"], body["text"]) == ("error", "failed")
    assert "ValueError" in body["trace"]


def test_we_are_alive_and_a_stranger_with_our_pid_is_not_us() -> None:
    me = process_identity.identify(os.getpid())

    assert me is not None
    assert process_identity.is_alive(me)
    assert not process_identity.is_alive(replace(me, started=me.started + 3))
    assert not process_identity.is_alive(replace(me, boot="another boot"))


def test_the_lock_tells_who_supervises_and_a_look_at_it_does_not_lose_it(tmp_path: Path) -> None:
    places = StatePaths(tmp_path)
    look = (
        "import pathlib, sys; from headrace.model.state_paths import StatePaths;"
        "from headrace.state import supervisor_lookup;"
        "found = supervisor_lookup.running(StatePaths(pathlib.Path(sys.argv[1])));"
        "print(found.pid if found else None)"
    )

    def seen_from_outside() -> str:
        command = [sys.executable, "-c", look, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert seen_from_outside() == "None"
    assert supervisor_lookup.take_lock(places)
    try:
        assert not supervisor_lookup.take_lock(places)
        assert supervisor_lookup.running(places) == process_identity.identify(os.getpid())
        assert seen_from_outside() == str(os.getpid())
    finally:
        supervisor_lookup.release_lock(places)
    assert seen_from_outside() == "None"
    assert supervisor_lookup.running(places) is None


def test_a_zombie_is_not_alive_and_nobody_is_signalled_by_a_stale_record() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        found = process_identity.identify(child.pid)
        assert found is not None

        assert not process.end_now(replace(found, started=found.started + 3))
        assert not process.ask_to_end(Process(1, 0.0, process_identity.boot_id()))
        assert child.poll() is None
        assert process.end_now(found)

        until(lambda: not process_identity.is_alive(found))
        assert psutil.pid_exists(child.pid)  # a zombie: nobody has waited for it yet
    finally:
        child.kill()
        child.wait()


def test_reap_ends_all_that_carries_the_mark_also_out_of_its_group(tmp_path: Path) -> None:
    code = "import os, time; os.setpgid(0, 0); time.sleep(600)"
    marks = {process_identity.RUN_MARK: "orders-1", process_identity.STATE_MARK: str(tmp_path)}
    other = {**marks, process_identity.STATE_MARK: "/elsewhere"}
    ours = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **marks})
    theirs = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **other})
    try:
        until(lambda: [m.run for m in process_identity.find_marked(tmp_path)] == ["orders-1"])

        assert process.reap(["orders-1"], tmp_path) == []

        assert ours.wait(5) == -9
        assert theirs.poll() is None
    finally:
        for child in (ours, theirs):
            child.kill()
            child.wait()


def test_a_process_is_known_from_its_first_moment_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Popen` returns before the program is loaded; the kernel then shows no environment."""
    monkeypatch.setattr(process_identity, "_LOADING_S", 10.0)  # a busy machine may take its time
    unknown = 0
    for _ in range(200):
        child = subprocess.Popen(
            ["sleep", "600"], env={**os.environ, process_identity.RUN_MARK: "a-1"}
        )
        unknown += process_identity.environment(child.pid).get(process_identity.RUN_MARK) != "a-1"
        child.kill()
        child.wait()

    assert unknown == 0
    assert process_identity.environment(child.pid) == {}


def test_threads_are_dumped_of_a_java_of_that_run_only(tmp_path: Path) -> None:
    marks = {process_identity.RUN_MARK: "orders-1", process_identity.STATE_MARK: str(tmp_path)}
    code = "import time; time.sleep(600)"
    python = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **marks})
    try:
        until(lambda: process_identity.find_marked(tmp_path))

        assert not process.dump_threads(python.pid, "orders-1", tmp_path)  # SIGQUIT would end it
        assert not process.dump_threads(os.getpid(), "orders-1", tmp_path)
        assert python.poll() is None
    finally:
        python.kill()
        python.wait()
