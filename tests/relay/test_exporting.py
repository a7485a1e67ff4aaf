"""Progress on its way out: what waits is bounded, what is dropped is counted, nothing is missed.

Events files are written as a driver writes them, by its own class; the sink is one that refuses
when told. What it does, Kafka does in brokers/test_metrics.py: nothing arrives, some arrive and
then none, some are refused for good, for some there is no time.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.driver.events import EventsFile
from headrace.json_file import write_json
from headrace.model.events import EventKind
from headrace.model.runs import RunSpec, run_name
from headrace.model.state_paths import StatePaths
from headrace.relay import event_reader, progress_export
from headrace.relay.progress_export import Exporter, SendResult
from headrace.state import event_file, progress_exports, run_folders

DOWN = "nobody answers"
NOW = 1_700_000_000.0
DAY_S = 24 * 3600.0


class Elsewhere:
    """Takes records, unless it is down; of those in `refuses` none ever."""

    to = "elsewhere"

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.is_down = False
        self.takes = 1_000_000
        self.words: str | None = DOWN  # where it takes less; None: it had no time
        self.refuses: set[int] = set()

    def send(self, records: Sequence[tuple[str, dict[str, Any]]]) -> SendResult:
        if self.is_down:
            return SendResult(frozenset(), problem=DOWN)
        refused = {n for n, (_, body) in enumerate(records) if batch(body) in self.refuses}
        arrived = {n for n in range(min(len(records), self.takes)) if n not in refused}
        self.bodies += [records[n][1] for n in sorted(arrived)]
        is_all = len(arrived) + len(refused) == len(records)
        return SendResult(arrived, refused, None if is_all else self.words)

    def batches(self) -> list[int]:
        return [batch(body) for body in self.bodies]


def batch(body: dict[str, Any]) -> int:
    return int(body["progress"]["batchId"])


@pytest.fixture
def places(tmp_path: Path) -> StatePaths:
    return StatePaths(tmp_path / ".headrace")


@pytest.fixture
def sink() -> Elsewhere:
    return Elsewhere()


class Run:
    """A run's folder, and the file in which it tells."""

    def __init__(self, places: StatePaths, at: float = 1_000_000.0, pipeline: str = "flow") -> None:
        self.places = places
        self.name = run_name(pipeline, at, "ab12")
        spec = RunSpec(self.name, pipeline, "/p", str(places.state), "v1", "dev", "flow.py", at=at)
        run_folders.write_spec(places, spec)
        self._file = EventsFile(places.events(self.name))

    def tells(self, *batches: int) -> None:
        for number in batches:
            self._file.tell(EventKind.SAMPLED, data={"queries": {}})
            progress = {"batchId": number, "numInputRows": number * 10}
            self._file.tell(EventKind.PROGRESSED, "kept", {"progress": progress, "fresh": None})


def test_every_progress_event_arrives_once_with_whose_it_is(
    places: StatePaths, sink: Elsewhere
) -> None:
    run = Run(places)
    going = Exporter("x", places)
    run.tells(0, 1)

    assert going.tick(sink, NOW) is None
    run.tells(2)
    assert going.tick(sink, NOW) is None
    assert going.tick(sink, NOW) is None

    assert sink.batches() == [0, 1, 2]
    first = sink.bodies[0]
    assert first["progress"] == {"batchId": 0, "numInputRows": 0}
    names = ("pipeline", "query", "run", "version", "profile", "dropped")
    assert [first[name] for name in names] == ["flow", "kept", run.name, "v1", "dev", 0]


def test_half_a_line_waits_for_its_end(places: StatePaths, sink: Elsewhere) -> None:
    run = Run(places)
    run.tells(0)
    path = places.events(run.name)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    going = Exporter("x", places)

    going.tick(sink, NOW)
    assert sink.batches() == []
    path.write_bytes(whole)
    going.tick(sink, NOW)

    assert sink.batches() == [0]


def test_a_line_that_is_none_is_passed_over(places: StatePaths, sink: Elsewhere) -> None:
    run = Run(places)
    with places.events(run.name).open("ab") as file:
        file.write(b'{"event":"progressed" torn\n')
    run.tells(1)

    Exporter("x", places).tick(sink, NOW)

    assert sink.batches() == [1]


def test_a_line_longer_than_any_does_not_hold_up_the_rest(
    places: StatePaths, sink: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_reader, "BYTES_PER_READ", 1_000)
    monkeypatch.setattr(event_file, "LINE_BYTES_MAX", 2_000)
    run = Run(places)
    with places.events(run.name).open("ab") as file:
        file.write(b"x" * 2_500 + b"\n")
    run.tells(1)
    going = Exporter("x", places)

    for _ in range(5):
        going.tick(sink, NOW)

    assert sink.batches() == [1]


def test_what_did_not_arrive_is_sent_again_in_its_order(
    places: StatePaths, sink: Elsewhere
) -> None:
    run = Run(places)
    going = Exporter("x", places)
    run.tells(*range(5))
    sink.takes = 2

    words = going.tick(sink, NOW)
    sink.takes = 1_000_000
    going.tick(sink, NOW)

    assert words == f"progress events to elsewhere are waiting: {DOWN}"
    assert sink.batches() == [0, 1, 2, 3, 4]


def test_another_life_goes_on_with_the_first_that_did_not_arrive(
    places: StatePaths, sink: Elsewhere
) -> None:
    run = Run(places)
    going = Exporter("x", places)
    run.tells(*range(5))
    sink.takes = 2
    going.tick(sink, NOW)
    run.tells(5)
    sink.takes = 1_000_000

    Exporter("x", places).tick(sink, NOW)

    assert sink.batches() == [0, 1, 2, 3, 4, 5]


def test_a_run_that_began_while_nobody_read_is_told_whole(
    places: StatePaths, sink: Elsewhere
) -> None:
    Run(places, at=1.0).tells(0)
    Exporter("x", places).tick(sink, NOW)
    other = Run(places, at=2_000_000.0)
    other.tells(7)
    write_json(places.exit(other.name), {"ending": "drained"})

    Exporter("x", places).tick(sink, NOW)

    assert sink.batches() == [0, 7]


def test_the_first_time_runs_that_are_over_are_not_told(
    places: StatePaths, sink: Elsewhere
) -> None:
    old, live = Run(places, at=1.0), Run(places, at=2_000_000.0)
    old.tells(0)
    write_json(places.exit(old.name), {"ending": "drained"})
    live.tells(1)

    Exporter("x", places).tick(sink, NOW)

    assert sink.batches() == [1]


def test_while_it_is_down_the_oldest_are_dropped_beyond_a_bound_and_counted(
    places: StatePaths, sink: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_export, "WAITING_MAX", 10)
    run = Run(places)
    going = Exporter("x", places)
    sink.is_down = True
    for number in range(25):
        run.tells(number)
        going.tick(sink, NOW)
    found = progress_exports.read(places, "x")
    assert found is not None
    assert (found.waiting, found.dropped) == (10, 15)
    assert "10 waiting, 15 dropped" in str(found.words(NOW))
    sink.is_down = False

    Exporter("x", places).tick(sink, NOW)

    assert sink.batches() == list(range(15, 25))
    assert {body["dropped"] for body in sink.bodies} == {15}


def test_so_many_bytes_may_wait_and_no_more(
    places: StatePaths, sink: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_export, "BYTES_MAX", 1_000)
    run = Run(places)
    going = Exporter("x", places)
    sink.is_down = True
    run.tells(*range(100))
    going.tick(sink, NOW)
    sink.is_down = False
    going.tick(sink, NOW)

    size = sum(1 for _ in sink.bodies)
    assert 0 < size < 15
    assert sink.batches() == list(range(100 - size, 100))
    assert sink.bodies[-1]["dropped"] == 100 - size


def test_what_waited_in_a_file_that_is_gone_is_counted(places: StatePaths, sink: Elsewhere) -> None:
    run = Run(places)
    going = Exporter("x", places)
    sink.is_down = True
    run.tells(*range(4))
    going.tick(sink, NOW)
    places.events(run.name).unlink()
    sink.is_down = False
    later = Run(places, at=3_000_000.0)
    later.tells(9)

    Exporter("x", places).tick(sink, NOW)

    assert sink.batches() == [9]
    assert sink.bodies[0]["dropped"] == 4


def test_a_record_that_nobody_takes_is_counted_and_holds_up_nothing(
    places: StatePaths, sink: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(places)
    going = Exporter("x", places)
    run.tells(0, 1, 2)
    sink.refuses = {1}

    with caplog.at_level(logging.WARNING, logger="headrace.relay.progress_export"):
        assert going.tick(sink, NOW) is None
        assert going.tick(sink, NOW) is None

    assert sink.batches() == [0, 2]
    found = progress_exports.read(places, "x")
    assert found is not None
    assert found.words(NOW) == "progress events to elsewhere: 1 dropped."
    assert caplog.messages == ["1 progress events to elsewhere were dropped"]


def test_more_than_a_tick_may_send_goes_with_the_next(
    places: StatePaths, sink: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_export, "BATCH", 3)
    monkeypatch.setattr(progress_export, "BATCHES_PER_TICK", 2)
    run = Run(places)
    going = Exporter("x", places)
    run.tells(*range(10))

    going.tick(sink, NOW)
    assert sink.batches() == list(range(6))
    going.tick(sink, NOW)

    assert sink.batches() == list(range(10))


def test_a_tick_that_takes_long_begins_no_further_batch(
    places: StatePaths, sink: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_export, "BATCH", 1)
    run = Run(places)
    steady = iter(range(1_000))  # each look at it is a second later
    going = Exporter("x", places, lambda: float(next(steady)))
    run.tells(*range(10))

    going.tick(sink, NOW)
    assert sink.batches() == [0, 1, 2, 3]
    for _ in range(2):
        going.tick(sink, NOW)

    assert sink.batches() == list(range(10))


def test_what_there_was_no_time_for_goes_with_a_later_one(
    places: StatePaths, sink: Elsewhere
) -> None:
    run = Run(places)
    going = Exporter("x", places)
    run.tells(*range(5))
    sink.takes, sink.words = 2, None

    assert going.tick(sink, NOW) is None

    assert sink.batches() == [0, 1, 2, 3, 4]


def test_that_some_were_dropped_is_said_for_a_day_and_counted_for_good(
    places: StatePaths, sink: Elsewhere
) -> None:
    run = Run(places)
    going = Exporter("x", places)
    sink.refuses = {0, 2}
    run.tells(0)
    going.tick(sink, NOW)
    run.tells(1)
    going.tick(sink, NOW + DAY_S - 1)
    first = progress_exports.read(places, "x")
    run.tells(2)
    Exporter("x", places).tick(sink, NOW + DAY_S)
    second = progress_exports.read(places, "x")

    assert first is not None
    assert first.words(NOW + DAY_S - 1) == "progress events to elsewhere: 1 dropped."
    assert first.words(NOW + DAY_S) is None
    assert second is not None
    assert second.words(NOW + 2 * DAY_S - 1) == "progress events to elsewhere: 2 dropped."
    assert second.words(NOW + 2 * DAY_S) is None
    shown = second.to_status_json()
    assert (shown["dropped"], shown["dropped_at"]) == (2, NOW + DAY_S)


def test_what_is_wrong_is_said_however_long_it_lasts(places: StatePaths, sink: Elsewhere) -> None:
    run = Run(places)
    going = Exporter("x", places)
    sink.is_down = True
    run.tells(0)
    going.tick(sink, NOW)
    found = progress_exports.read(places, "x")

    assert found is not None
    assert found.words(NOW + 9 * DAY_S) == f"progress events to elsewhere: 1 waiting. {DOWN}"


def test_while_settings_are_wrong_the_sink_of_before_is_used_and_it_is_said(
    places: StatePaths, sink: Elsewhere
) -> None:
    run = Run(places)
    going = Exporter("x", places)
    going.tick(sink, NOW)
    run.tells(0)

    assert going.tick(sink, NOW, "no field 'server'.") is None
    found = progress_exports.read(places, "x")
    going.tick(sink, NOW)
    later = progress_exports.read(places, "x")

    assert sink.batches() == [0]
    assert found is not None
    assert found.words(NOW) == "progress events to elsewhere: none waiting. no field 'server'."
    assert later is not None
    assert later.problem is None


def test_without_any_sink_events_wait_until_there_is_one(
    places: StatePaths, sink: Elsewhere
) -> None:
    run = Run(places)
    going = Exporter("x", places)
    run.tells(0, 1)

    assert going.tick(None, NOW, "no field 'server'.") is None
    found = progress_exports.read(places, "x")
    going.tick(sink, NOW)

    assert found is not None
    assert found.words(NOW) == "progress events to [metrics.x]: 2 waiting. no field 'server'."
    assert sink.batches() == [0, 1]


def test_a_run_that_was_deleted_while_nobody_read_is_forgotten(
    places: StatePaths, sink: Elsewhere
) -> None:
    old, kept = Run(places, at=1.0), Run(places, at=2_000_000.0)
    old.tells(0)
    kept.tells(1)
    Exporter("x", places).tick(sink, NOW)
    shutil.rmtree(places.run(old.name))

    Exporter("x", places).tick(sink, NOW)

    found = progress_exports.read(places, "x")
    assert found is not None
    assert list(found.runs) == [kept.name]
    assert sink.batches() == [0, 1]
