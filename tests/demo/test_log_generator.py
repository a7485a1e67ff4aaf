"""The log generator: what it writes, that it accounts for every line, and when it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace.demo import generator, input_reader, log_lines
from headrace.demo.paths import DemoPaths
from headrace.json_file import write_json
from headrace.supervisor import process

NOW = 1_780_000_000.0


@cache
def seconds(count: int, rate: int = 60) -> tuple[log_lines.Second, ...]:
    return tuple(log_lines.second(tick, NOW + tick, rate, seed=7) for tick in range(count))


@cache
def logs(made: tuple[log_lines.Second, ...]) -> list[input_reader.LoggedLine]:
    return [log for one in made for line in one.lines if (log := input_reader.log_of(line))]


def test_the_same_second_is_the_same_again() -> None:
    assert log_lines.second(5, NOW, 100, seed=1) == log_lines.second(5, NOW, 100, seed=1)
    assert log_lines.second(5, NOW, 100, seed=1) != log_lines.second(5, NOW, 100, seed=2)


def test_the_oracle_finds_what_the_generator_says_it_wrote() -> None:
    """Two opinions of one thing: who made the lines, and plain JSON."""
    for one in seconds(60):
        found = [input_reader.log_of(line) for line in one.lines]
        good = [log for log in found if log is not None]

        assert len(found) - len(good) == one.malformed
        assert sum(log.is_login for log in good) == one.logins
        assert sum(log.is_beat for log in good) == one.heartbeats


def test_a_few_lines_are_malformed_late_and_doubled() -> None:
    made = seconds(120, rate=200)
    written = [line for one in made for line in one.lines]
    ages = [NOW + 120 - log.at / 1e6 for log in logs(made)]

    assert 0.003 < sum(one.malformed for one in made) / len(written) < 0.012
    assert any(age > 1700 for age in ages)
    assert sum(count - 1 for count in Counter(written).values()) > 100
    assert {type(log.load) for log in logs(made) if log.is_beat} == {float}


@pytest.mark.parametrize("damage", log_lines._DAMAGES)
def test_every_damage_makes_a_line_that_is_no_log(damage: str) -> None:
    import random

    for number in range(100):
        dice = random.Random(number)
        body = log_lines._body(NOW, dice)

        line = log_lines._damage(body, damage, dice)

        assert input_reader.log_of(line) is None
        assert b"\n" not in line
        assert b"\r" not in line
        assert line.strip()


def test_heartbeats_come_every_two_seconds_in_order_and_once() -> None:
    beats = [log for log in logs(seconds(200)) if log.is_beat]
    times: dict[Any, list[int]] = {}
    for log in beats:
        times.setdefault(log.cluster_id, []).append(log.at)

    assert sorted(times) == list(log_lines.CLUSTERS)
    for cluster, seen in times.items():
        gaps = {(b - a) / 1e6 for a, b in pairwise(seen)}
        assert gaps == ({2.0} if cluster != log_lines.SILENT else {2.0, log_lines.SILENT_S + 2.0})


def test_one_cluster_is_overloaded_within_half_a_minute_and_then_every_minute() -> None:
    made = seconds(200)
    over = [log.at / 1e6 - NOW for log in logs(made) if log.is_beat and (log.load or 0) > 99]

    assert 0 <= over[0] < 30
    assert sum(one.overloads for one in made) == 3
    assert not [log for log in logs(made) if log.is_beat and 90 <= (log.load or 0) <= 99]


def test_one_cluster_falls_silent_for_more_than_a_minute_and_comes_back() -> None:
    made = seconds(200)
    mine = [log.at / 1e6 - NOW for log in logs(made) if log.is_beat and log.cluster_id == 9]

    assert mine[0] < 10
    assert max(b - a for a, b in pairwise(mine)) > 100
    assert mine[-1] > 180


def test_what_is_written_is_whole_and_accounted_for(tmp_path: Path) -> None:
    places = DemoPaths(tmp_path)

    first = generator.next_tick(places)
    names = [generator.write(places, first + n, NOW + n, 50, seed=1) for n in range(3)]

    told = list(input_reader.entries(places.truth))
    assert [entry["file"] for entry in told] == names
    assert input_reader.input_files(places.incoming, places.truth) == [
        places.incoming / n for n in names
    ]
    assert sum(len(input_reader.lines_of(places.incoming / n)) for n in names) == sum(
        entry["lines"] for entry in told
    )
    assert generator.next_tick(places) == 3


def test_a_generator_killed_between_file_and_account_is_made_up_for(tmp_path: Path) -> None:
    places = DemoPaths(tmp_path)
    generator.next_tick(places)
    for tick in range(3):
        generator.write(places, tick, NOW + tick, 50, seed=1)
    whole = places.truth.read_bytes()
    places.truth.write_bytes(whole[: whole.rindex(b"{") + 9])  # torn in its last line

    following = generator.next_tick(places)

    told = list(input_reader.entries(places.truth))
    before = [json.loads(line) for line in whole.splitlines()]
    assert following == 3
    assert [{**entry, "overloads": 0} for entry in told] == before


def test_the_rate_can_be_lowered_while_it_runs_and_not_raised(tmp_path: Path) -> None:
    places = DemoPaths(tmp_path)

    assert generator.rate_of(places, 300) == 300
    write_json(places.control, {"rate": 20})
    assert generator.rate_of(places, 300) == 20
    write_json(places.control, {"rate": 900})
    assert generator.rate_of(places, 300) == 300
    places.control.write_text("{")
    assert generator.rate_of(places, 300) == 300


@pytest.mark.e2e
def test_a_companion_that_does_not_end_by_itself_is_ended(tmp_path: Path) -> None:
    deaf = process.Companion(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"],
        tmp_path,
        tmp_path / "log",
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "log").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)

    assert deaf.code is None
    assert deaf.end(timeout_s=0.2) < 0
    assert deaf.code is not None


@pytest.mark.e2e
def test_a_second_generator_waits_for_the_first(tmp_path: Path) -> None:
    places = DemoPaths(tmp_path)
    command = [sys.executable, "-m", "headrace.demo.generator", str(tmp_path), "--rate", "20"]
    pair = [
        process.Companion([*command, "--seed", "1"], tmp_path, tmp_path / "log") for _ in range(2)
    ]
    deadline = time.monotonic() + 30
    while len(list(input_reader.entries(places.truth))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)

    codes = [one.end() for one in pair]

    names = [str(entry["file"]) for entry in input_reader.entries(places.truth)]
    assert codes == [0, 0], (tmp_path / "log").read_text()
    assert len(names) == len(set(names)) >= 2


@pytest.mark.e2e
def test_it_ends_when_whoever_started_it_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.demo.generator", str(tmp_path), "--rate", "50"]
    child = subprocess.Popen([*command, "--seed", "1"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    places = DemoPaths(tmp_path)
    deadline = time.monotonic() + 30
    while len(list(input_reader.entries(places.truth))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)

    child.stdin.close()  # as the kernel does when the demo is killed
    code = child.wait(10)

    assert code == 0
    assert len(input_reader.input_files(places.incoming, places.truth)) >= 2
