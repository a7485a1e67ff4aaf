"""Which topics alert rows are taken from, and what is said of it. No broker answers here."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import pytest

from headrace.connectors.kafkabroker import Ends
from headrace.jsonfile import write_json
from headrace.model.alerts import ByTopic
from headrace.model.pipeline import Definition, Query
from headrace.model.places import Places
from headrace.model.runs import Desired
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay.alerting import Alerting, by_topic
from headrace.relay.taking import Goal, begin
from headrace.state import alerttopics
from headrace.state.homes import home

VERSION = "v" * 12
NOBODY = '[alerts]\nservers = "127.0.0.1:1"\n'


def deployed(
    folder: Path, toml: str, trigger: str = "real-time", profile: str = "dev"
) -> Workspace:
    (folder / "headrace.toml").write_text("[profiles.kafka]\n")
    work = open_workspace(folder, "dev")
    query = Query(
        "hot", "p.py:1", (), {"kind": "alert"}, "update", {"kind": trigger}, None, "", "",
    )  # fmt: skip
    definition = Definition("p", profile, VERSION, "p.py", (), (query,))
    write_json(work.places.definition(VERSION, profile, "p"), definition.to_json())
    wanted = Desired("p", "running", VERSION, profile, "p.py")
    write_json(work.places.desired("p"), asdict(wanted))
    work.places.code(VERSION).mkdir(parents=True, exist_ok=True)
    (work.places.code(VERSION) / "headrace.toml").write_text(toml)
    return work


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
    alerting = Alerting()

    (said,) = alerting.tick(work)
    alerting.close()

    assert "no field 'server'" in said
    assert "no field 'server'" in str(alerttopics.read(work.places)["p", "hot"].problem)


def test_what_an_earlier_relay_has_left_goes_when_nothing_is_wanted(tmp_path: Path) -> None:
    work = deployed(tmp_path, "", "every")
    alerttopics.write(work.places, [ByTopic("p", "hot", "headraceAlerts", 1.0)])

    assert Alerting().tick(work) == []

    assert alerttopics.read(work.places) == {}


def test_a_relay_that_dies_again_and_again_does_not_begin_anew(tmp_path: Path) -> None:
    work = deployed(tmp_path, NOBODY)
    alerttopics.write(work.places, [ByTopic("p", "hot", "headraceAlerts", 10.0, 20.0)])
    alerting = Alerting()

    alerting.tick(work)
    alerting.close()

    found = alerttopics.read(work.places)["p", "hot"]
    assert (found.since, found.until) == (10.0, 20.0)


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    work = deployed(tmp_path, "[alerts]\nserver = 1\n")
    work.places.alert_topics.mkdir()

    said = Alerting().tick(work)

    assert any("alerttopics.json cannot be written" in one for one in said)


@pytest.mark.parametrize(
    ("known", "ends", "starts"),
    [
        ({}, {0: Ends(3, 9)}, {0: 3}),
        ({0: 5}, {0: Ends(3, 9)}, {0: 5}),
        ({0: 9}, {0: Ends(3, 9)}, {0: 9}),
        ({0: 1}, {0: Ends(3, 9)}, {0: 3}),
        ({0: 12}, {0: Ends(3, 9)}, {0: 3}),
        ({0: 5}, {0: Ends(3, 9), 1: Ends(0, 2)}, {0: 5, 1: 0}),
    ],
)
def test_it_goes_on_where_it_was_or_where_the_topic_begins(
    known: dict[int, int], ends: dict[int, Ends], starts: dict[int, int]
) -> None:
    assert begin(known, ends) == starts


def test_all_is_taken_once_every_partition_is_where_it_ended_then() -> None:
    goal = Goal(time.time(), {0: 5, 1: 0})

    assert not goal.is_reached({0: 4, 1: 0})
    assert goal.is_reached({0: 5})
    assert goal.is_reached({0: 9, 1: 2})


def test_a_state_folder_has_a_name_of_its_own(tmp_path: Path) -> None:
    first, second = Places(tmp_path / "a"), Places(tmp_path / "b")

    assert home(first) == home(first) != home(second)
    assert [path.name for path in first.state.iterdir()] == ["home"]
