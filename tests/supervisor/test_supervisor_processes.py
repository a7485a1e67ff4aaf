"""The supervisor as a process, with fake drivers: kills, adoption, drains, strangers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from headrace import process_identity
from headrace.json_file import write_json
from headrace.model.gaps import Gap
from headrace.model.requests import Action
from headrace.model.runs import Desired, Exit, Process, RunSpec
from headrace.state import desired, run_folders
from supervisor.conftest import Project, until

pytestmark = pytest.mark.e2e


def test_a_deployed_pipeline_runs_and_says_so(project: Project) -> None:
    project.supervise()

    answer = project.deploy("orders")

    assert answer.ok
    pid = project.one_driver("orders")
    until(lambda: project.state("orders")[0] == "running", what="running")
    assert psutil.Process(pid).cwd() == str(project.path)
    assert (project.places.runs.stat().st_mode & 0o777) == 0o700


def test_a_killed_driver_comes_back_after_a_moment(project: Project) -> None:
    project.supervise()
    project.deploy("orders")
    first = project.one_driver("orders")

    os.kill(first, signal.SIGKILL)

    project.one_driver("orders", beside=first)
    assert [spec.attempt for spec in project.runs("orders")] == [1, 2]
    assert "restart_scheduled" in project.recorded("orders")


def test_a_killed_supervisor_finds_its_drivers_again(project: Project) -> None:
    first = project.supervise()
    project.deploy("orders")
    pid = project.one_driver("orders")

    first.kill()
    first.wait()
    before = project.events_text(project.runs("orders")[0].run)
    project.supervise()

    until(lambda: "adopted" in project.recorded("orders"), what="adoption")
    until(lambda: project.state("orders")[0] == "running", what="running")
    assert project.one_driver("orders") == pid
    assert len(project.runs("orders")) == 1
    until(lambda: project.events_text(project.runs("orders")[0].run) != before, what="an event")


def test_a_driver_that_has_not_said_who_it_is_yet_is_adopted_by_its_mark(project: Project) -> None:
    project.behave(orders={"late": 2.5})
    first = project.supervise()
    project.deploy("orders")
    (found,) = until(lambda: [m for m in project.drivers("orders") if m.is_leader])
    assert not project.places.process(found.run).exists()

    first.kill()
    first.wait()
    project.supervise()

    assert project.one_driver("orders") == found.process.pid
    assert len(project.runs("orders")) == 1


def test_secrets_of_a_killed_driver_are_removed(project: Project) -> None:
    """Also of one that was killed while no supervisor ran, and of one that an older Headrace
    left."""
    old = "orders-20200101T000000-aaaa"
    spec = RunSpec(old, "orders", str(project.path), "", "v1", "dev", "f")
    run_folders.write_spec(project.places, spec)
    write_json(project.places.exit(old), Exit("drained", 0, 1.0).to_json())
    leave_secrets(project, old)
    first = project.supervise()
    until(lambda: not project.places.spark_settings(old).exists(), what="removed at the start")
    project.deploy("orders")
    pid = project.one_driver("orders")
    killed = project.runs("orders")[-1].run
    leave_secrets(project, killed)

    os.kill(pid, signal.SIGKILL)

    until(lambda: not project.places.spark_settings(killed).exists(), what="removed at the end")
    pid = project.one_driver("orders", beside=pid)
    killed = project.runs("orders")[-1].run
    leave_secrets(project, killed)
    first.kill()
    first.wait()
    os.kill(pid, signal.SIGKILL)
    project.supervise()
    until(lambda: not project.places.spark_settings(killed).exists(), what="removed after both")


def leave_secrets(project: Project, run: str) -> None:
    path = project.places.spark_settings(run)
    path.parent.mkdir()
    path.write_text("spark.x.password s3cret\n")


def test_supervisor_and_driver_killed_together_leave_one_driver(project: Project) -> None:
    for gap_s in (0.0, 0.1):
        first = project.supervise()
        project.deploy("orders")
        pid = project.one_driver("orders")

        first.kill()
        time.sleep(gap_s)
        os.kill(pid, signal.SIGKILL)
        first.wait()
        second = project.supervise()

        project.one_driver("orders", beside=pid)
        second.kill()
        second.wait()


def test_the_pid_of_a_stranger_in_an_old_record_is_left_alone(
    project: Project, stranger: psutil.Popen
) -> None:
    spec = RunSpec("orders-20200101T000000-aaaa", "orders", str(project.path), "", "v1", "dev", "f")
    run_folders.write_spec(project.places, spec)
    stale = Process(stranger.pid, 1.0, process_identity.boot_id())
    write_json(project.places.process(spec.run), stale.to_json())
    desired.write(project.places, Desired("orders", "running", "v1", "dev", "orders.py"))

    project.supervise()
    project.one_driver("orders")
    project.ask(Action.STOP, "orders")

    until(lambda: project.state("orders")[0] == "stopped", what="stopped")
    assert stranger.is_running()
    ended = project.outcome(spec.run)
    assert ended is not None
    assert ended.ending == "vanished"


def test_what_a_driver_leaves_behind_is_ended_before_the_next_one_starts(project: Project) -> None:
    project.behave(orders={"mode": "offspring"})
    project.supervise()
    project.deploy("orders")
    first = project.one_driver("orders")
    old_run = project.runs("orders")[0].run
    until(lambda: len(project.drivers("orders")) == 2, what="driver and child")

    os.kill(first, signal.SIGKILL)

    project.one_driver("orders", beside=first)
    assert not [m for m in project.drivers("orders") if m.run == old_run]
    assert "reaped" in project.recorded("orders")


def test_a_stop_drains_and_stays_stopped_also_for_the_next_supervisor(project: Project) -> None:
    supervisor = project.supervise()
    project.deploy("orders")
    project.one_driver("orders")

    project.ask(Action.STOP, "orders")

    until(lambda: project.state("orders")[0] == "stopped", what="stopped")
    assert project.state("orders") == ("stopped", "stopped by ann, at a batch boundary")
    assert not project.drivers("orders")
    supervisor.kill()
    supervisor.wait()
    project.supervise()
    until(lambda: project.ask(Action.STOP, "orders").text == "orders is already stopped")
    time.sleep(1.0)  # several ticks and delays: time enough to be started by mistake
    assert len(project.runs("orders")) == 1


def test_down_drains_all_and_up_brings_them_back(project: Project) -> None:
    supervisor = project.supervise()
    for name in ("a", "b", "c"):
        project.deploy(name)
    for name in ("a", "b", "c"):
        project.one_driver(name)

    project.ask(Action.DOWN)

    assert supervisor.wait(10) == 0
    assert not project.drivers()
    assert not project.places.supervisor_process.exists()
    ended = [project.outcome(project.runs(name)[0].run) for name in ("a", "b", "c")]
    assert [exit_ and exit_.ending for exit_ in ended] == ["drained"] * 3
    project.supervise()
    for name in ("a", "b", "c"):
        project.one_driver(name)


def test_sigterm_to_the_supervisor_drains_and_a_second_cuts(project: Project) -> None:
    project.behave(orders={"mode": "slow"})
    project.version("v1", "[drain]\ntimeout_s = 60\nkill_s = 60\n")
    supervisor = project.supervise()
    project.ask(Action.DEPLOY, "orders", version="v1", file="orders.py")
    project.one_driver("orders")
    run = project.runs("orders")[0].run

    supervisor.terminate()
    until(lambda: "drain_started" in project.events_text(run), what="a drain")
    assert supervisor.poll() is None
    supervisor.terminate()

    assert supervisor.wait(10) == 0
    exit_ = project.outcome(run)
    assert exit_ is not None
    assert exit_.ending == "cut"


def test_a_driver_that_does_not_hear_is_killed_at_its_deadline(project: Project) -> None:
    project.behave(orders={"mode": "deaf"})
    project.supervise()
    project.deploy("orders")
    project.one_driver("orders")
    began = time.monotonic()

    project.ask(Action.STOP, "orders")

    until(lambda: project.state("orders")[0] == "stopped", what="stopped")
    assert 2.5 < time.monotonic() - began < 8
    exit_ = project.outcome(project.runs("orders")[0].run)
    assert exit_ is not None
    assert exit_.ending == "cut"


@pytest.mark.parametrize(("mode", "word"), [("hang", "no heartbeat"), ("mute", "its start")])
def test_a_driver_without_a_sign_of_life_is_killed_and_restarted(
    project: Project, mode: str, word: str
) -> None:
    project.behave(orders={"mode": mode})
    project.supervise()
    project.deploy("orders")
    (found,) = until(lambda: [m for m in project.drivers("orders") if m.is_leader])

    until(lambda: project.outcome(found.run), what="its end")
    project.behave()

    project.one_driver("orders", beside=found.process.pid)
    exit_ = project.outcome(found.run)
    assert exit_ is not None
    assert exit_.ending == "stalled"
    assert word in str(exit_.error)


def test_a_query_that_hangs_in_a_batch_is_told_of_then_killed(project: Project) -> None:
    project.behave(orders={"mode": "stall"})
    project.supervise()
    project.deploy("orders")
    first = project.one_driver("orders")

    until(lambda: project.state("orders")[0] == "stalled", what="stalled")
    assert "q has not finished a batch for" in project.state("orders")[1]
    project.behave()

    project.one_driver("orders", beside=first)
    until(lambda: "alert_resolved" in project.recorded("orders"), what="the alert's end")
    recorded = project.recorded("orders")
    assert [k for k in recorded if k.startswith("alert")] == ["alert_opened", "alert_resolved"]


def test_three_times_the_same_failure_needs_a_person_and_start_tries_again(
    project: Project,
) -> None:
    project.behave(orders={"mode": "fail"})
    project.supervise()
    project.deploy("orders")

    until(lambda: project.state("orders")[0] == "needs-attention", what="needs attention")

    assert len(project.runs("orders")) == 3
    assert project.recorded("orders").count("gave_up") == 1
    project.behave()
    assert project.ask(Action.START, "orders").ok
    project.one_driver("orders")
    until(lambda: project.state("orders")[0] == "running", what="running")


def test_needs_attention_is_remembered_by_the_next_supervisor(project: Project) -> None:
    project.behave(orders={"mode": "refuse"})
    supervisor = project.supervise()
    project.deploy("orders")
    until(lambda: project.state("orders")[0] == "needs-attention", what="needs attention")
    supervisor.kill()
    supervisor.wait()
    project.places.history.unlink()

    project.supervise()

    until(lambda: project.state("orders")[0] == "needs-attention", what="needs attention")
    assert len(project.runs("orders")) == 1


def test_a_new_version_takes_the_place_of_the_running_one(project: Project) -> None:
    project.supervise()
    project.deploy("orders", "v1")
    first = project.one_driver("orders")

    answer = project.deploy("orders", "v2")

    assert answer.text == "orders: version v2 replaces v1"
    second = project.one_driver("orders", beside=first)
    versions = [spec.version for spec in project.runs("orders")]
    assert versions == ["v1", "v2"]
    ended = project.outcome(project.runs("orders")[0].run)
    assert ended is not None
    assert ended.ending == "drained"
    assert project.deploy("orders", "v2").text == "orders is already running version v2"
    assert project.ask(Action.ROLLBACK, "orders").text == "orders is rolling back from v2 to v1"
    project.one_driver("orders", beside=second)
    assert project.runs("orders")[-1].version == "v1"


def test_what_is_finished_stays_so(project: Project) -> None:
    project.behave(orders={"mode": "finish"})
    project.supervise()
    project.deploy("orders")

    until(lambda: project.state("orders")[0] == "finished", what="finished")
    time.sleep(0.8)

    assert len(project.runs("orders")) == 1


def test_a_second_supervisor_refuses_and_names_the_first(project: Project) -> None:
    first = project.supervise()

    second = project.supervise()

    assert second.wait(10) == 3
    said = (project.path / "supervisor.out").read_text()
    assert f"A supervisor is already running for this project: process {first.pid}" in said
    assert first.poll() is None


def test_a_second_supervisor_refuses_also_without_the_file_of_the_lock(project: Project) -> None:
    project.supervise()
    project.places.supervisor_lock.unlink()

    assert project.supervise().wait(60) == 3


def test_a_state_folder_that_others_may_write_is_refused(project: Project) -> None:
    project.places.state.chmod(0o777)

    refused = project.supervise()

    assert refused.wait(10) == 3
    assert "chmod 700" in (project.path / "supervisor.out").read_text()


def test_supervision_goes_on_while_the_store_is_broken(project: Project) -> None:
    project.supervise()
    project.deploy("orders")
    first = project.one_driver("orders")
    until(lambda: project.state("orders")[0] == "running", what="running")
    for path in project.places.state.glob("history.db*"):
        with path.open("r+b") as file:  # cut short, a file that is mapped ends its reader
            file.write(b"not a database at all" * 1000)

    os.kill(first, signal.SIGKILL)

    second = project.one_driver("orders", beside=first)
    assert project.ask(Action.STOP, "orders").ok
    until(lambda: process_identity.identify(second) is None, what="its end")


def test_a_gap_is_left_out_until_it_is_behind_also_by_the_run_after_a_kill(
    project: Project,
) -> None:
    checkpoint = project.path / "checkpoint"
    standing(checkpoint, 10)
    gap = Gap("q", "logs", 0, first=10, low=50, high=60, checkpoint=str(checkpoint)).to_json()
    project.version("v1", "[restart]\ndelay_s_min = 0.2\n")  # no limit that a busy machine meets
    project.supervise()
    project.ask(Action.DEPLOY, "orders", version="v1", file="orders.py")
    project.one_driver("orders")
    project.ask(Action.STOP, "orders")
    until(lambda: not project.drivers("orders"), what="its end")

    project.ask(Action.START, "orders", accepted_gaps=(gap,), note="10 records")
    first = project.one_driver("orders")
    os.kill(first, signal.SIGKILL)
    second = project.one_driver("orders", beside=first)
    assert [run.accepts_gap for run in project.runs("orders")] == [False, True, True]

    standing(checkpoint, 50)
    third = project.one_driver("orders", beside=second)

    newest = project.runs("orders")[-1]
    assert (newest.accepts_gap, newest.restarts) == (False, 2)
    ended = project.outcome(project.runs("orders")[-2].run)
    assert ended is not None
    assert ended.ending == "drained"
    assert "restarting with data-loss checks on" in ended.asked
    assert project.one_driver("orders") == third


def standing(checkpoint: Path, at: int) -> None:
    """A checkpoint of Spark's whose query has read the topic up to there."""
    batch = str(at)
    for name, text in (("offsets", f'v1\n{{}}\n{{"logs":{{"0":{at}}}}}'), ("commits", "v1\n{}")):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / name / batch).write_text(text)
