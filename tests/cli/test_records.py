"""`logs`, `events`, `progress`, `versions`: what was, read from the files that runs leave."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest

from cli.stage import Project, eventually, started
from headrace import process_identity
from headrace.cli.options import Options
from headrace.json_file import write_json
from headrace.model.events import Event, EventKind
from headrace.project import history, log_tail
from headrace.store import db
from headrace.store import events as recorded


def test_logs_shows_the_last_lines_of_the_newest_run(project: Project) -> None:
    project.deployed()
    project.ran(number=1, log="old\n")
    project.ran(number=2, log="".join(f"line {n}\n" for n in range(10)))

    done = project.headrace("logs", "hello", "-n", "2")

    assert (done.exit_code, done.stdout) == (0, "line 8\nline 9\n")


def test_logs_of_an_earlier_run_and_as_json(project: Project) -> None:
    project.deployed()
    run = project.ran(number=1, log="old\n")
    project.ran(number=2, log="new\n")

    done = project.headrace("logs", "hello", "--run", run, "--json")

    assert json.loads(done.stdout) == {"run": run, "line": "old"}


def test_logs_hides_secrets_and_nothing_in_it_moves_the_terminal(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DB", "s3cret-value")
    (project.folder / "headrace.toml").write_text('[spark]\n"spark.x" = "${env:SHOP_DB}"\n')
    project.deployed()
    project.ran(log=HOSTILE)

    shown = project.headrace("logs", "hello").stdout
    as_json = project.headrace("logs", "hello", "--json").stdout

    assert shown.splitlines() == [
        "known [hidden]",
        "by url postgresql://app:[hidden]@db.test/shop",
        "split [hidden]",
        "red\ttext",
        "title",
        "back\ufffd\ufffd up\ufffd\ufffdstart",
    ]
    assert "s3cret" not in as_json
    assert "hunter2" not in as_json


HOSTILE = (
    "known s3cret-value\n"
    "by url postgresql://app:hunter2@db.test/shop\n"
    "split s3cret\x1b[0m-value\n"
    "\x1b[31mred\ttext\x1b[0m\n"
    "title\x1b]0;owned\x07\n"
    "back\x08\x9d up\x1b\rstart\n"
)


def test_logs_hides_what_only_the_supervisor_was_given(project: Project) -> None:
    """As under systemd, whose EnvironmentFile is not read by the shell of a person."""
    (project.folder / "headrace.toml").write_text('[spark]\n"spark.x" = "${env:SHOP_DB}"\n')
    project.deployed()
    project.ran(log="known s3cret-value\n")
    environment = {**os.environ, "SHOP_DB": "s3cret-value"}
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as supervisor:  # type: ignore[call-overload]
        supervisor.stdout.readline()
        found = process_identity.identify(supervisor.pid)
        assert found is not None
        write_json(project.places.supervisor_process, found.to_json())

        shown = project.headrace("logs", "hello").stdout
        supervisor.communicate(b"\n")

    assert shown == "known [hidden]\n"


def test_logs_of_an_unknown_run_lists_the_known(project: Project) -> None:
    project.deployed()
    run = project.ran()

    body = project.json("logs", "hello", "--run", "nope", code=2)

    assert run in body["error"]["why"]


def test_logs_before_the_first_run_says_how_to_run_it(project: Project) -> None:
    body = project.json("logs", "hello", code=2)

    assert body["error"]["slug"] == "no-runs"
    assert "headrace run hello" in body["error"]["fix"]


def test_following_logs_goes_over_to_the_next_run(project: Project) -> None:
    project.deployed()
    project.ran(number=1, log="first\n")
    work = Options(project=str(project.folder)).open()
    seen: list[str] = []

    def follow() -> None:
        lines = history.log_lines(work, "hello", run=None, count=10, follow=True)
        for line in islice(lines, 3):
            seen.append(line.text)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    eventually(lambda: seen == ["first"])
    run = project.ran(number=2, log="second\n")
    thread.join(10)

    assert seen == ["first", f"--- {run} ---", "second"]


def test_events_are_told_in_words_without_the_noise(project: Project) -> None:
    project.deployed()
    project.ran(events=started())

    lines = project.headrace("events", "hello").stdout.splitlines()

    assert [line.partition("Z ")[2] for line in lines] == [
        "run started, pid 4711, Spark 4",
        "defined: kept",
        "kept: started, exactly-once",
    ]


def test_events_say_who_wanted_a_run_to_end_and_how_it_ended(project: Project) -> None:
    project.deployed()
    drain = Event(
        3000.0, EventKind.DRAIN_STARTED, None, {"deadline_s": 30, "reason": "asked to stop"}
    )
    ended = Event(3002.0, EventKind.EXITED, None, {"ending": "drained"})
    run = project.ran(events=(*started(), drain, ended))
    with contextlib.closing(db.open_history(project.places.history)) as book:
        recorded.add(book, 2999.0, "hello", run, "drain_started", "stopped by ann")
        recorded.add(book, 3003.0, "hello", run, "run_ended", "drained: stopped by ann")

    lines = project.headrace("events", "hello").stdout.splitlines()

    assert [line.partition("Z ")[2] for line in lines[-3:]] == [
        "drain started: stopped by ann",
        "draining, up to 30 s: asked to stop",
        "run ended: drained",
    ]


def test_events_as_json_are_one_object_a_line(project: Project) -> None:
    project.deployed()
    run = project.ran(events=started())

    lines = project.headrace("events", "hello", "--all", "--json").stdout.splitlines()

    found = [json.loads(line) for line in lines]
    assert [event["event"] for event in found] == [event.kind for event in started()]
    assert {event["run"] for event in found} == {run}


def test_events_of_one_query_over_several_runs(project: Project) -> None:
    project.deployed()
    for number in (1, 2):
        project.ran(number=number, events=started())

    lines = project.headrace("events", "hello/kept", "-n", "10").stdout.splitlines()

    assert len(lines) == 2


def test_a_torn_event_line_is_skipped(project: Project) -> None:
    project.deployed()
    run = project.ran(events=started())
    with project.places.events(run).open("a") as file:
        file.write('{"at": 5, "event": "query_st\n')

    assert len(project.headrace("events", "hello").stdout.splitlines()) == 3


def test_progress_is_sparks_own_newest_of_each_query(project: Project) -> None:
    project.deployed()
    events = [
        Event(float(n), EventKind.PROGRESSED, name, {"progress": {"batchId": n, "numInputRows": 1}})
        for n in range(5)
        for name in ("kept", "counted")
    ]
    project.ran(events=tuple(events))

    found = project.json("progress", "hello", "-n", "2")["progress"]

    assert [(item["query"], item["progress"]["batchId"]) for item in found] == [
        ("counted", 3),
        ("counted", 4),
        ("kept", 3),
        ("kept", 4),
    ]


def test_progress_for_people_is_a_table(project: Project) -> None:
    project.deployed()
    project.ran(events=started())

    done = project.headrace("progress", "hello/kept")

    assert "hello/kept" in done.stdout
    assert "20" in done.stdout


def test_progress_before_the_first_batch_says_so(project: Project) -> None:
    project.deployed()
    project.ran()

    assert "No batch" in project.headrace("progress", "hello").stdout


def test_versions_say_who_runs_them_and_who_could_go_back(project: Project) -> None:
    project.deployed(version="bbbb", previous=("aaaa",))
    for at, version in enumerate(("aaaa", "bbbb", "cccc")):
        body = {"version": version, "at": float(at), "files": [], "packages": {}}
        write_json(project.places.version(version) / "version.json", body)
        project.places.code(version).mkdir()

    everything = project.json("versions")["versions"]
    mine = project.json("versions", "hello")["versions"]

    assert [item["version"] for item in everything] == ["aaaa", "bbbb", "cccc"]
    assert [(v["current"], v["earlier"]) for v in mine] == [([], ["hello"]), (["hello"], [])]
    assert "bbbb" in project.headrace("versions").stdout


def test_the_last_lines_of_a_long_file_are_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"{n} {'x' * 1000}\n" for n in range(1000)) + "no end")

    lines, position = log_tail.last_lines(path, 3)

    assert [line.split()[0] for line in lines] == ["998", "999", "no"]
    assert position == path.stat().st_size


def test_a_growing_file_gives_whole_lines_only(tmp_path: Path) -> None:
    growing = log_tail.Tail(tmp_path / "log")

    before = growing.lines()
    (tmp_path / "log").write_bytes(b"one\ntw")
    first = growing.lines()
    with (tmp_path / "log").open("ab") as file:
        file.write(b"o\n")
    second = eventually(growing.lines)

    assert (before, first, second) == ([], ["one"], ["two"])


def test_progress_and_events_tell_how_old_the_rows_were(project: Project) -> None:
    project.deployed()
    operators = [{"numRowsDroppedByWatermark": 77}]
    body = {"batchId": 4, "numInputRows": 20, "stateOperators": operators}
    fresh = {"basis": "arrival", "n": 20, "p50_ms": 31_000, "p99_ms": 58_000}
    event = Event(5.0, EventKind.PROGRESSED, "kept", {"progress": body, "fresh": fresh})
    project.ran(events=(*started(), event))

    words = project.headrace("progress", "hello/kept").stdout
    told = project.headrace("events", "hello/kept", "--all").stdout

    assert "31 s / 58 s" in words
    assert "77" in words
    assert project.json("progress", "hello/kept")["progress"][0]["fresh"] == fresh
    assert "batch 4: 20 rows, half of them processed within 31 s" in told


def test_events_tell_of_outages_and_of_files_that_changed(project: Project) -> None:
    project.deployed()
    refused = "Kafka 127.0.0.1:9092: connection refused"
    changed = {"batch": 3, "vanished": 1, "vanished_files": ["/in/3.txt"]}
    changed |= {"rewritten": 2, "rewritten_files": ["/in/4.txt", "/in/5.txt"]}
    events = (
        Event(1005.0, EventKind.OUTAGE_BEGAN, "kept", {"error": refused}),
        Event(1065.0, EventKind.OUTAGE_ENDED, "kept", {"for_s": 72.0, "is_answered": True}),
        Event(1066.0, EventKind.INPUTS_CHANGED, "kept", changed),
    )
    project.ran(events=events)

    words = project.headrace("events", "hello").stdout

    for part in (
        f"kept: its source is not responding: {refused}",
        "kept: its source is responding again, after 72 s",
        "kept: batch 3: 1 input file vanished before being read: /in/3.txt; "
        "2 input files changed after being listed: /in/4.txt, /in/5.txt",
    ):
        assert part in words
