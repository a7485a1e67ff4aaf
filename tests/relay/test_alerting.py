"""Which topics alert rows are taken from, and what is said of it. No broker answers here."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headrace.connectors.kafka.broker_client import TopicEnds
from headrace.connectors.kafka.connector import Kafka
from headrace.json_file import write_json
from headrace.model.alerts import TopicAlerts
from headrace.model.pipeline import Definition, Query
from headrace.model.runs import Desired, RunSpec, run_name
from headrace.model.state_paths import StatePaths
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay.alert_topic_reader import (
    AlertTopicReader,
    Goal,
    count_deleted,
    starting_offsets,
)
from headrace.relay.alert_topics import AFTER_S, AlertTopics, by_topic
from headrace.state import alert_topic_status, run_folders
from headrace.state.installation_id import home

VERSION = "v" * 12
NOBODY = '[alerts]\nservers = "127.0.0.1:1"\n'
OTHER = f'{NOBODY}topic = "other"\n'


def deployed(
    folder: Path,
    toml: str,
    trigger: str = "real-time",
    profile: str = "dev",
    version: str = VERSION,
) -> Workspace:
    (folder / "headrace.toml").write_text("[profiles.kafka]\n")
    work = open_workspace(folder, "dev")
    query = Query(
        "hot", "p.py:1", (), {"kind": "alert"}, "update", {"kind": trigger}, None, "", "",
    )  # fmt: skip
    definition = Definition("p", profile, version, "p.py", (), (query,))
    write_json(work.places.definition(version, profile, "p"), definition.to_json())
    wanted = Desired("p", "running", version, profile, "p.py")
    write_json(work.places.desired("p"), asdict(wanted))
    work.places.code(version).mkdir(parents=True, exist_ok=True)
    (work.places.code(version) / "headrace.toml").write_text(toml)
    return work


def ran(work: Workspace, at: float, version: str = VERSION, ended_at: float | None = None) -> str:
    name = run_name("p", at, "ab12")
    spec = RunSpec(name, "p", str(work.project), str(work.places.state), version, "dev", "p.py")
    run_folders.write_spec(work.places, spec)
    if ended_at is not None:
        ended(work, name, ended_at)
    return name


def ended(work: Workspace, run: str, at: float) -> None:
    write_json(work.places.exit(run), {"ending": "drained"})
    os.utime(work.places.exit(run), (at, at))


def line(until: float | None) -> TopicAlerts:
    """As an earlier relay has left it."""
    return TopicAlerts("p", "hot", "headraceAlerts", 10.0, until, None, VERSION, "dev")


class Idle(AlertTopicReader):
    """Has taken nothing yet; without a thread, so that nobody waits for its end."""

    def __init__(self, topic: Kafka, places: StatePaths, home: str) -> None:
        self.since, self.until, self.problem = time.time(), None, None
        self.lost, self.lost_at = 0, None

    def end(self) -> None:
        pass


def asked(work: Workspace, alerting: AlertTopics | None = None) -> list[str]:
    """The topics after a tick, by the file."""
    (alerting or AlertTopics(Idle)).tick(work)
    return [by.topic for by in alert_topic_status.read(work.places)]


def test_the_topic_is_the_deployed_one_in_its_profile(tmp_path: Path) -> None:
    toml = NOBODY.replace("alerts", "profiles.kafka.alerts")
    work = deployed(tmp_path, toml, profile="kafka")

    (one,) = by_topic(work)

    assert one.topic is not None
    assert (one.topic.servers, one.topic.topic) == ("127.0.0.1:1", "headraceAlerts")


def test_a_query_that_is_not_in_real_time_has_none(tmp_path: Path) -> None:
    assert list(by_topic(deployed(tmp_path, NOBODY, "every"))) == []


def test_a_topic_that_cannot_be_read_is_told_and_not_forgotten(tmp_path: Path) -> None:
    work = deployed(tmp_path, "[alerts]\nserver = 1\n")
    alerting = AlertTopics()

    (said,) = alerting.tick(work)
    alerting.close()

    assert "no field 'server'" in said
    (found,) = alert_topic_status.read(work.places)
    assert "no field 'server'" in str(found.problem)


def test_what_an_earlier_relay_has_left_goes_when_nothing_is_wanted(tmp_path: Path) -> None:
    work = deployed(tmp_path, "", "every")
    alert_topic_status.write(work.places, [TopicAlerts("p", "hot", "headraceAlerts", 1.0)])

    assert AlertTopics().tick(work) == []

    assert alert_topic_status.read(work.places) == []


def test_a_relay_that_dies_again_and_again_does_not_begin_anew(tmp_path: Path) -> None:
    work = deployed(tmp_path, NOBODY)
    alert_topic_status.write(work.places, [line(20.0)])

    assert asked(work) == ["headraceAlerts"]

    (found,) = alert_topic_status.read(work.places)
    assert (found.since, found.until) == (10.0, 20.0)


@pytest.mark.parametrize(
    ("toml", "trigger", "topics"),
    [
        (OTHER, "real-time", ["other", "headraceAlerts"]),
        (NOBODY.replace(":1", ":2"), "real-time", ["headraceAlerts", "headraceAlerts"]),
        (NOBODY, "every", ["headraceAlerts"]),
    ],
)
def test_a_topic_is_taken_from_until_the_run_that_writes_there_has_ended(
    tmp_path: Path, toml: str, trigger: str, topics: list[str]
) -> None:
    work = deployed(tmp_path, NOBODY)
    run, alerting = ran(work, 1e6), AlertTopics(Idle)
    assert asked(work, alerting) == ["headraceAlerts"]

    deployed(tmp_path, toml, trigger, version="w" * 12)
    assert asked(work, alerting) == topics
    ended(work, run, time.time())
    assert asked(work, alerting) == topics, "its last rows may wait"


def test_the_same_topic_of_a_new_version_is_one(tmp_path: Path) -> None:
    work = deployed(tmp_path, NOBODY)
    ran(work, 1e6)
    alert_topic_status.write(work.places, [line(20.0)])
    deployed(tmp_path, NOBODY, version="w" * 12)

    assert asked(work) == ["headraceAlerts"]

    (found,) = alert_topic_status.read(work.places)
    assert (found.until, found.version) == (20.0, "w" * 12)


def test_also_a_relay_that_was_not_there_takes_what_an_earlier_run_has_left(
    tmp_path: Path,
) -> None:
    """Down on Friday with the broker away; another topic on Monday."""
    work = deployed(tmp_path, NOBODY)
    ran(work, 1e6, ended_at=1_000_500.0)
    alert_topic_status.write(work.places, [line(until=1_000_400.0)])
    deployed(tmp_path, OTHER, version="w" * 12)
    ran(work, 2e6, "w" * 12)

    assert asked(work) == ["other", "headraceAlerts"]


def test_a_topic_is_left_once_all_that_was_written_there_is_taken(tmp_path: Path) -> None:
    work = deployed(tmp_path, NOBODY)
    ran(work, 1e6, ended_at=1_000_500.0)
    alert_topic_status.write(work.places, [line(until=1_000_500.0 + AFTER_S)])
    deployed(tmp_path, OTHER, version="w" * 12)
    ran(work, 2e6, "w" * 12)

    assert asked(work) == ["other"]


def test_a_run_two_deployments_ago_still_counts(tmp_path: Path) -> None:
    work = deployed(tmp_path, NOBODY)
    ran(work, 1e6)
    alerting = AlertTopics(Idle)
    asked(work, alerting)
    deployed(tmp_path, NOBODY, version="u" * 12)  # and none of it has run
    asked(work, alerting)
    deployed(tmp_path, OTHER, version="w" * 12)

    assert asked(work, alerting) == ["other", "headraceAlerts"]


def test_a_topic_whose_broker_is_gone_is_given_up_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work = deployed(tmp_path, NOBODY)
    ran(work, 1e6, ended_at=time.time())
    alert_topic_status.write(work.places, [line(until=20.0)])
    deployed(tmp_path, OTHER, version="w" * 12)
    alerting = AlertTopics(Idle)
    assert asked(work, alerting) == ["other", "headraceAlerts"]

    monkeypatch.setattr("headrace.relay.alert_topics.LEFT_S", 0.0)
    assert asked(work, alerting) == ["other"]

    assert caplog.messages == ["giving up on alert rows from query hot in topic headraceAlerts"]


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    work = deployed(tmp_path, "[alerts]\nserver = 1\n")
    work.places.alert_topics.mkdir()

    said = AlertTopics().tick(work)

    assert any("alerttopics.json could not be written" in one for one in said)


def test_rows_that_were_lost_are_counted_on_by_another_relay(tmp_path: Path) -> None:
    work = deployed(tmp_path, NOBODY)
    alert_topic_status.write(work.places, [replace(line(20.0), lost=5, lost_at=15.0)])
    made: list[Idle] = []

    def start(topic: Kafka, places: StatePaths, home: str) -> AlertTopicReader:
        made.append(Idle(topic, places, home))
        return made[0]

    alerting = AlertTopics(start)
    alerting.tick(work)
    (first,) = alert_topic_status.read(work.places)
    made[0].lost, made[0].lost_at = 2, 30.0
    for _ in range(2):
        alerting.tick(work)
    (second,) = alert_topic_status.read(work.places)

    assert (first.lost, first.lost_at) == (5, 15.0)
    assert (second.lost, second.lost_at) == (7, 30.0)


@pytest.mark.parametrize(
    ("known", "ends", "starts", "lost"),
    [
        ({}, {0: TopicEnds(3, 9)}, {0: 3}, 0),
        ({0: 5}, {0: TopicEnds(3, 9)}, {0: 5}, 0),
        ({0: 9}, {0: TopicEnds(3, 9)}, {0: 9}, 0),
        ({0: 1}, {0: TopicEnds(3, 9)}, {0: 3}, 2),
        ({0: 1, 1: 4}, {0: TopicEnds(3, 9), 1: TopicEnds(9, 9)}, {0: 3, 1: 9}, 7),
        ({0: 12}, {0: TopicEnds(3, 9)}, {0: 3}, 0),
        ({0: 5}, {0: TopicEnds(3, 9), 1: TopicEnds(0, 2)}, {0: 5, 1: 0}, 0),
    ],
)
def test_it_goes_on_where_it_was_or_where_the_topic_begins(
    known: dict[int, int], ends: dict[int, TopicEnds], starts: dict[int, int], lost: int
) -> None:
    assert starting_offsets(known, ends) == starts
    assert count_deleted(known, ends) == lost


def test_all_is_taken_once_every_partition_is_where_it_ended_then() -> None:
    goal = Goal(time.time(), {0: 5, 1: 0})

    assert not goal.is_reached({0: 4, 1: 0})
    assert goal.is_reached({0: 5})
    assert goal.is_reached({0: 9, 1: 2})


def test_a_state_folder_has_a_name_of_its_own(tmp_path: Path) -> None:
    first, second = StatePaths(tmp_path / "a"), StatePaths(tmp_path / "b")

    assert home(first) == home(first) != home(second)
    assert [path.name for path in first.state.iterdir()] == ["home"]
