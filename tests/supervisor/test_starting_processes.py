"""Starting a detached supervisor, and the child that defines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace import process_identity
from headrace.errors import SetupError
from headrace.model.requests import Action
from headrace.model.runs import RunSpec
from headrace.state import supervisor_lookup
from headrace.supervisor import process
from supervisor.conftest import FAKE_DRIVER, Project, until

pytestmark = pytest.mark.e2e


def spec(project: Project) -> RunSpec:
    place, state = str(project.path), str(project.places.state)
    return RunSpec("", "orders", place, state, "v1", "dev", "orders.py", define=("orders.py",))


def test_a_detached_supervisor_is_ready_when_it_is_said_to_be(project: Project) -> None:
    started = process.start_supervisor(project.path, "dev")

    assert supervisor_lookup.running(project.places) == started
    assert os.getsid(started.pid) == started.pid
    assert process.start_supervisor(project.path, "dev") == started  # the one that runs is as good
    assert project.ask(Action.DOWN).ok
    until(lambda: supervisor_lookup.running(project.places) is None, what="its end")
    process.collect_children()


def test_a_supervisor_that_cannot_start_says_why(project: Project) -> None:
    project.places.state.chmod(0o777)

    with pytest.raises(SetupError, match="did not start") as caught:
        process.start_supervisor(project.path, "dev")

    assert "Other users can write to the state folder" in str(caught.value)


def test_a_definition_child_ends_with_its_exit_and_leaves_no_folder(project: Project) -> None:
    project.behave(orders={"mode": "refuse"})

    exit_ = process.to_the_end(project.places, spec(project), 20.0, FAKE_DRIVER)

    assert (exit_.ending, exit_.code) == ("refused", 3)
    assert list(project.places.runs.iterdir()) == []


def test_a_definition_child_that_hangs_is_ended(project: Project) -> None:
    project.behave(orders={"mode": "mute"})

    with pytest.raises(SetupError) as caught:
        process.to_the_end(project.places, spec(project), 8.0, FAKE_DRIVER)

    assert caught.value.code == "check-timeout"
    assert "driver of orders, mute" in str(caught.value)


def test_a_definition_child_that_dies_without_a_word_is_told(project: Project) -> None:
    project.behave(orders={})
    (project.path / "behaviour.json").write_text("no json")

    with pytest.raises(SetupError) as caught:
        process.to_the_end(project.places, spec(project), 20.0, FAKE_DRIVER)

    assert caught.value.code == "check-vanished"
    assert "JSONDecodeError" in str(caught.value)


def test_a_driver_that_dies_before_it_can_speak_is_tried_three_times(project: Project) -> None:
    (project.path / "behaviour.json").write_text("no json")
    project.supervise()
    project.deploy("orders")

    until(lambda: project.state("orders")[0] == "needs-attention", what="needs attention")

    assert len(project.runs("orders")) == 3
    assert "exited with code 1" in project.state("orders")[1]


def test_a_run_whose_record_of_what_should_run_is_gone_is_drained(project: Project) -> None:
    first = project.supervise()
    project.deploy("orders")
    project.one_driver("orders")
    first.kill()
    first.wait()
    project.places.desired("orders").unlink()

    project.supervise()

    exit_ = until(lambda: project.outcome(project.runs("orders")[0].run), what="its end")
    assert exit_.ending == "drained"
    assert not process_identity.find_marked(project.places.state)


def test_a_damaged_record_of_what_should_run_stops_nothing(project: Project) -> None:
    first = project.supervise()
    project.deploy("orders")
    pid = project.one_driver("orders")
    first.kill()
    first.wait()
    project.places.desired("orders").write_text("{")

    project.supervise()

    until(lambda: project.state("orders")[0] == "running", what="running")
    assert project.one_driver("orders") == pid
    aside = Path(f"{project.places.desired('orders')}.bad")
    until(aside.exists, what="the damaged file put aside")
    assert "does not know whether orders should run" in project.state("orders")[1]
    assert project.ask(Action.START, "orders").ok
    until(lambda: "does not know whether" not in project.state("orders")[1], what="a decision")
    assert project.one_driver("orders") == pid


def test_a_damaged_record_without_any_run_waits_for_a_person_too(project: Project) -> None:
    project.places.desired("orders").parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    project.places.desired("orders").write_text("{")

    project.supervise()

    until(lambda: project.state("orders")[0] == "needs-attention", what="needs attention")
    assert "headrace up orders" in project.state("orders")[1]
    refused = project.ask(Action.START, "orders")
    assert (refused.ok, (refused.error or {}).get("fix")) == (False, "headrace up orders")
    assert project.deploy("orders").ok
    project.one_driver("orders")
