"""Commands that start and stop things, with a real supervisor and drivers that only lack Spark."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cli.stage import PIPELINE, Project, eventually
from headrace import process_identity
from headrace.cli import run_session
from headrace.project import runs
from headrace.state import desired, supervisor_lookup
from headrace.supervisor import process
from headrace.supervisor.loop import Supervisor

pytestmark = pytest.mark.e2e

EVENTS = "*/events.jsonl"
FAKE = (sys.executable, str(Path(__file__).with_name("fake_driver.py")))
SUPERVISOR = (
    "import sys; from headrace.supervisor.main import main;"
    f"sys.exit(main([*sys.argv[1:], '--driver-command', {shlex.join(FAKE)!r}]))"
)
SETTINGS = """\
[project]
name = "test"
[restart]
delay_s_min = 0.05
delay_s_max = 0.1
"""


@pytest.fixture
def living(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project whose drivers are fakes; nothing of it lives on after the test."""
    (project.folder / "headrace.toml").write_text(SETTINGS)
    monkeypatch.setattr(process, "to_the_end", partial(process.to_the_end, command=FAKE))
    monkeypatch.setattr(process, "SUPERVISOR", (sys.executable, "-c", SUPERVISOR))
    own = partial(Supervisor, driver_command=FAKE)
    monkeypatch.setattr(run_session, "Supervisor", own)
    yield project
    if supervisor_lookup.running(project.places):
        project.headrace("down")
    process.reap(
        [found.run for found in process_identity.find_marked(project.places.state)],
        project.places.state,
    )


def does(project: Project, word: str, name: str = "hello") -> None:
    (project.folder / "pipelines" / f"{name}.py").write_text(f"# does: {word}\n{PIPELINE}")


def interrupt(
    project: Project, times: int, number: int = signal.SIGINT, working: int = 1
) -> threading.Thread:
    """Presses Ctrl-C on this process once its pipeline works, and again while it drains."""

    def press() -> None:
        log = project.places.runs
        eventually(lambda: sum("progressed" in p.read_text() for p in log.glob(EVENTS)) >= working)
        os.kill(os.getpid(), number)
        if times > 1:
            eventually(lambda: "drain_started" in all_events(log))
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    return thread


def all_events(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob(EVENTS))


# ---- check


def test_check_shows_queries_guarantees_and_warnings(living: Project) -> None:
    done = living.headrace("check")

    assert done.exit_code == 0, done.output
    for word in ("kept", "lines → parquet data/words", "append", "every 2 s", "exactly-once"):
        assert word in done.stdout
    assert "State is never cleaned up." in done.stderr
    assert "No problems, 1 warning." in done.stdout
    assert "JSON is parsed in words by arrow, spark" in done.stdout
    assert list(living.places.versions.iterdir()) == [], "check leaves nothing behind"


def test_check_reports_all_problems_at_once(living: Project) -> None:
    does(living, "refuse")

    done = living.headrace("check", "hello")

    assert done.exit_code == 2
    assert list(living.places.runs.iterdir()) == [], "check leaves nothing behind"
    assert list(living.places.versions.iterdir()) == [], "check leaves nothing behind"
    assert 'There is no input "lins".' in done.stderr
    assert "Mode complete does not work here." in done.stderr


def test_check_as_json(living: Project) -> None:
    body = living.json("check")
    does(living, "refuse")
    refused = living.json("check", code=2)

    assert body["pipelines"][0]["queries"][0]["name"] == "kept"
    assert [p["slug"] for p in refused["error"]["problems"]] == ["unknown-input", "bad-mode"]


def test_check_of_a_script_says_that_it_has_no_definition(living: Project) -> None:
    (living.folder / "script.py").write_text("print('hello')\n")

    done = living.headrace("check", "script.py")

    assert done.exit_code == 2
    assert "headrace run script.py" in done.stderr


def test_check_names_a_file_that_ends_its_process_and_checks_the_others(project: Project) -> None:
    for name, code in (("first", "os._exit(0)"), ("last", "os.abort()"), ("hello", "1 / 0")):
        (project.folder / "pipelines" / f"{name}.py").write_text(f"import os\n{code}\n{PIPELINE}")

    problems = project.json("check", code=2)["error"]["problems"]

    assert {(one["slug"], one["where"]) for one in problems} == {
        ("definition-exited", "pipelines/first.py"),
        ("definition-exited", "pipelines/last.py"),
        ("definition-raised", "pipelines/hello.py:2"),
    }
    assert "exited with code 0" in problems[0]["what"]
    assert f"killed by signal {signal.SIGABRT.value}" in problems[1]["what"]
    assert list(project.places.runs.iterdir()) == [], "check leaves nothing behind"
    assert list(project.places.versions.iterdir()) == [], "check leaves nothing behind"


# ---- run


def test_run_follows_a_pipeline_to_its_end(living: Project) -> None:
    does(living, "finish")

    done = living.headrace("run", "hello")

    assert done.exit_code == 0, done.output
    assert "hello from hello" in done.stdout
    assert "kept: started, exactly-once" in done.stderr
    assert "hello finished" in done.stderr
    assert "kept: finished with batch 0" in done.stderr
    assert supervisor_lookup.running(living.places) is None


def test_run_of_a_refused_pipeline_tells_all_problems_and_ends_with_2(living: Project) -> None:
    does(living, "refuse")

    done = living.headrace("run", "pipelines/hello.py")

    assert done.exit_code == 2, done.output
    assert done.stderr.count("Mode complete does not work here.") == 1


def test_the_same_failure_three_times_ends_run_with_4(living: Project) -> None:
    does(living, "fail")

    done = living.headrace("run", "hello")

    assert done.exit_code == 4, done.output
    assert done.stderr.count("guard n") == 3
    assert "needs attention" in done.stderr
    assert "headrace why hello" in done.stderr


def test_run_gives_a_script_its_arguments(living: Project) -> None:
    (living.folder / "script.py").write_text("# does: finish\n")

    done = living.headrace("run", "script.py", "--", "--host", "x")

    assert done.exit_code == 0, done.output
    assert "hello from script --host x" in done.stdout


def test_run_of_a_script_outside_the_project_uses_this_projects_state(
    living: Project, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere.py").write_text("print('x')\n# does: finish\n")

    done = living.headrace("run", str(tmp_path / "elsewhere.py"))

    assert done.exit_code == 0, done.output
    assert list(living.places.runs.glob("elsewhere-*"))


def test_a_pipeline_outside_the_project_is_refused(living: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(PIPELINE)

    done = living.headrace("run", str(tmp_path / "elsewhere.py"))

    assert done.exit_code == 2
    assert f"--project {tmp_path}" in done.stderr


def test_a_pipeline_takes_no_arguments(living: Project) -> None:
    done = living.headrace("run", "hello", "--", "x")

    assert done.exit_code == 2
    assert "accepts no arguments" in done.stderr


def test_run_of_an_unknown_name_gets_the_near_miss_and_writes_nothing(living: Project) -> None:
    done = living.headrace("run", "helo")

    assert done.exit_code == 2
    assert 'Did you mean "hello"?' in done.stderr
    assert not living.places.state.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_interrupt_drains_and_ends_with_0(living: Project, number: int) -> None:
    pressed = interrupt(living, 1, number)

    done = living.headrace("run", "hello")

    pressed.join(5)
    assert done.exit_code == 0, done.output
    assert "draining: waiting for the running batches, up to 30 s" in done.stderr
    assert "kept: stopped cleanly after batch" in done.stderr


def test_a_second_interrupt_cuts_and_ends_with_1(living: Project) -> None:
    does(living, "slow")
    pressed = interrupt(living, 2)

    done = living.headrace("run", "hello")

    pressed.join(5)
    assert done.exit_code == 1, done.output
    assert "cutting" in done.stderr
    assert "kept: CUT after batch" in done.stderr


def test_run_leaves_other_pipelines_alone(living: Project) -> None:
    living.deployed("other")
    does(living, "finish", "other")
    does(living, "finish")

    living.headrace("run", "hello")

    assert not list(living.places.runs.glob("other-*"))


def test_run_leaves_a_running_pipeline_of_a_dead_supervisor_running(living: Project) -> None:
    does(living, "steady", "other")
    living.headrace("up", "other")
    supervisor = supervisor_lookup.running(living.places)
    assert supervisor is not None
    process.end_now(supervisor)
    eventually(lambda: supervisor_lookup.running(living.places) is None)
    does(living, "finish")

    done = living.headrace("run", "hello")

    assert done.exit_code == 0, done.output
    (left,) = process_identity.find_marked(living.places.state)
    assert left.run.startswith("other-")
    (other,) = living.json("status", "other")["pipelines"]
    assert (other["state"], other["pid"]) == ("running", left.process.pid)


def test_run_is_refused_for_what_is_kept_running_and_leaves_it_alone(living: Project) -> None:
    living.headrace("up")
    (before,) = living.json("status")["pipelines"]
    does(living, "finish")

    done = living.headrace("run", "hello")

    assert done.exit_code == 3
    assert f'The supervisor is already running "hello": version {before["version"]}' in done.stderr
    assert "headrace run hello --replace" in done.stderr
    (after,) = living.json("status")["pipelines"]
    assert (after["state"], after["run"], after["pid"]) == ("running", before["run"], before["pid"])


@pytest.mark.parametrize("end", ["finish", "interrupt", "fail"])
def test_run_with_replace_puts_back_what_it_has_replaced(living: Project, end: str) -> None:
    with (living.folder / "headrace.toml").open("a") as file:
        file.write("[profiles.prod]\n")
    living.headrace("--profile", "prod", "up")
    (before,) = living.json("status")["pipelines"]
    does(living, "steady" if end == "interrupt" else end)
    pressed = interrupt(living, 1, working=2) if end == "interrupt" else None

    done = living.headrace("run", "hello", "--replace")

    if pressed is not None:
        pressed.join(60)
    assert done.exit_code == {"finish": 0, "interrupt": 0, "fail": 4}[end], done.output
    assert f"restored version {before['version']}, profile prod; it is starting" in done.stderr
    assert living.headrace("wait", "hello", "--timeout", "60s").exit_code == 0
    (after,) = living.json("status")["pipelines"]
    names = ("state", "version", "profile", "dev")
    assert [after[n] for n in names] == [before[n] for n in names]
    assert after["run"] != before["run"]


def test_run_without_a_supervisor_leaves_what_was_deployed_as_it_was(living: Project) -> None:
    living.headrace("up")
    before = desired.read(living.places, "hello")
    living.headrace("down")
    does(living, "finish")

    done = living.headrace("run", "hello")

    assert done.exit_code == 0, done.output
    after = desired.read(living.places, "hello")
    assert before is not None
    assert after is not None
    assert replace(after, generation=0, request="") == replace(before, generation=0, request="")
    versions = [run.spec.version for run in runs.backwards(living.places, "hello")]
    assert len(versions) == 2, "only this run was started"
    assert versions[1] == after.version != versions[0]


def test_run_is_refused_for_a_run_that_lost_its_supervisor(living: Project) -> None:
    living.headrace("up")
    supervisor = supervisor_lookup.running(living.places)
    assert supervisor is not None
    process.end_now(supervisor)
    eventually(lambda: supervisor_lookup.running(living.places) is None)
    (left,) = process_identity.find_marked(living.places.state)

    done = living.headrace("run", "hello")

    assert done.exit_code == 3
    assert "--replace" in done.stderr
    assert process_identity.is_alive(left.process)


RUN = (
    "import sys; from functools import partial; from pathlib import Path;"
    "from headrace.cli import run_session; from headrace.cli.main import main;"
    "from headrace.supervisor.loop import Supervisor;"
    f"run_session.Supervisor = partial(Supervisor, driver_command={FAKE!r});"
    "main(['run', 'hello'])"
)


def test_a_run_whose_terminal_is_gone_drains_all_the_same(living: Project) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "-c", RUN]
    child = subprocess.Popen(
        command, cwd=living.folder, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    eventually(lambda: "progressed" in all_events(living.places.runs))

    os.close(master)  # every word to it fails from here on
    child.send_signal(signal.SIGHUP)

    assert child.wait(20) == 0
    (path,) = living.places.runs.glob("*/exit.json")
    assert json.loads(path.read_text())["ending"] == "drained"


def test_a_run_goes_on_when_nobody_reads_its_output(living: Project) -> None:
    does(living, "talk")
    command = [sys.executable, "-c", RUN]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    child = subprocess.Popen(command, cwd=living.folder, **pipe)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    spoken = eventually(lambda: all_events(living.places.runs).count("progressed"))
    eventually(lambda: all_events(living.places.runs).count("progressed") > spoken + 10)

    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) == 0


# ---- up, down, and what needs a supervisor


def test_up_deploys_waits_and_down_drains(living: Project) -> None:
    up = living.headrace("up")
    again = living.headrace("up")
    down = living.headrace("down")

    assert up.exit_code == 0, up.output
    assert "supervisor started" in up.stdout
    assert "hello: deployed" in up.stdout
    assert "running" in up.stdout
    assert again.exit_code == 0
    assert "supervisor started" not in again.stdout
    for each in (up, again):
        assert "warning: State is never cleaned up." in each.stderr
    assert down.exit_code == 0, down.output
    assert "kept: stopped cleanly after batch" in down.stdout
    assert not process_identity.find_marked(living.places.state)


def test_a_supervisor_whose_record_is_gone_or_damaged_is_still_found(living: Project) -> None:
    living.headrace("up")
    running = supervisor_lookup.running(living.places)
    assert running is not None
    record = living.places.supervisor_process

    for damage in (record.unlink, lambda: record.write_text("{")):
        damage()

        assert living.json("status")["supervisor"] == {"pid": running.pid}
        assert "supervisor started" not in living.headrace("up").stdout
        eventually(lambda: supervisor_lookup.find_recorded(living.places) == running)

    record.unlink()
    down = living.headrace("down")
    assert "kept: stopped cleanly after batch" in down.stdout
    assert not process_identity.find_marked(living.places.state)


def test_up_of_a_refused_pipeline_deploys_nothing(living: Project) -> None:
    does(living, "refuse")

    done = living.headrace("up")

    assert done.exit_code == 2
    assert not list(living.places.desired_folder.glob("*"))


def test_up_tells_of_a_start_that_fails_for_good(living: Project) -> None:
    does(living, "fail")
    with (living.folder / "headrace.toml").open("a") as file:
        file.write("retries = 0\n")

    done = living.headrace("up")

    assert done.exit_code == 4, done.output
    assert "Division by zero." in done.stderr


def test_up_keeps_a_script_up_with_its_arguments(living: Project) -> None:
    (living.folder / "script.py").write_text("print('x')\n")

    done = living.headrace("up", "script.py", "--", "localhost", "9999")

    assert done.exit_code == 0, done.output
    assert "hello from script localhost 9999" in living.headrace("logs", "script").stdout


def test_down_without_anything_says_so(living: Project) -> None:
    done = living.headrace("down")

    assert done.exit_code == 0
    assert "Nothing to do" in done.stdout


def test_down_adopts_and_drains_drivers_that_lost_their_supervisor(living: Project) -> None:
    living.headrace("up")
    supervisor = supervisor_lookup.running(living.places)
    assert supervisor is not None
    process.end_now(supervisor)
    eventually(lambda: supervisor_lookup.running(living.places) is None)

    done = living.headrace("down")

    assert done.exit_code == 0, done.output
    assert "Draining them" in done.stdout
    assert "kept: stopped cleanly" in done.stdout
    assert not process_identity.find_marked(living.places.state)


def test_a_down_that_nobody_served_is_not_left_for_the_next_supervisor(living: Project) -> None:
    living.deployed()
    living.supervised()

    def vanish() -> None:
        eventually(lambda: list(living.places.requests.glob("*.json")))
        living.places.supervisor_process.unlink()

    thread = threading.Thread(target=vanish, daemon=True)
    thread.start()
    done = living.headrace("down")

    thread.join(5)
    assert done.exit_code == 0, done.output
    assert list(living.places.requests.iterdir()) == []


def test_stop_start_and_restart(living: Project) -> None:
    living.headrace("up")

    stopped = living.headrace("stop", "hello")
    waited = living.headrace("wait", "hello", "--until", "stopped", "--timeout", "60s")
    again = living.headrace("stop", "hello")
    started = living.headrace("start", "hello")
    running = living.headrace("wait", "hello", "--timeout", "60s")
    twice = living.headrace("start", "hello")
    restarted = living.headrace("restart", "hello")

    codes = [d.exit_code for d in (stopped, waited, again, started, running, twice, restarted)]
    assert codes == [0] * 7
    assert "kept: stopped cleanly after batch" in stopped.stdout
    assert "already stopped" in again.stdout
    assert "already running" in twice.stdout
    assert "is draining and restarting" in restarted.stdout


def test_stop_with_cut_does_not_wait(living: Project) -> None:
    does(living, "slow")
    living.headrace("up")

    done = living.headrace("stop", "hello", "--cut")

    assert done.exit_code == 0, done.output
    assert "CUT" in done.stdout


@pytest.mark.parametrize("command", ["start", "stop", "restart", "rollback"])
def test_without_a_supervisor_control_ends_with_3_and_the_fix(
    living: Project, command: str
) -> None:
    done = living.headrace(command, "hello")

    assert done.exit_code == 3
    assert "headrace up" in done.stderr


def test_rollback_shows_what_it_does_asks_and_goes_back(living: Project) -> None:
    living.headrace("up")
    first = living.json("status")["pipelines"][0]["version"]
    does(living, "steady")
    living.headrace("up")

    refused = living.headrace("rollback", "hello", input="n\n")
    done = living.headrace("rollback", "hello", "--yes")

    assert refused.exit_code == 1
    assert "differs: pipelines/hello.py" in refused.stdout
    assert done.exit_code == 0, done.output
    eventually(lambda: living.json("status")["pipelines"][0]["version"] == first)


def test_rollback_of_a_pipeline_that_needs_attention_says_that_nothing_is_drained(
    living: Project,
) -> None:
    living.headrace("up")
    does(living, "fail")
    living.headrace("up")
    living.headrace("wait", "hello", "--until", "stopped")

    plan = living.headrace("rollback", "hello", input="n\n")

    assert "is not running: the other version will start" in plan.stdout
    assert "drained" not in plan.stdout


def test_rollback_without_an_earlier_version_says_so(living: Project) -> None:
    living.headrace("up")

    done = living.headrace("rollback", "hello")

    assert done.exit_code == 3
    assert "no earlier version" in done.stderr


def test_rollback_to_an_unknown_version_lists_the_kept(living: Project) -> None:
    living.headrace("up")
    version = living.json("status")["pipelines"][0]["version"]

    done = living.headrace("rollback", "hello", "zzz")

    assert done.exit_code == 2
    assert version in done.stderr


def test_up_in_the_foreground_refuses_a_second_supervisor(living: Project) -> None:
    living.headrace("up")

    done = living.headrace("up", "--foreground")

    assert done.exit_code == 3
    assert "already running" in done.stderr


FOREGROUND = (
    "from headrace.cli.main import main; from headrace.supervisor import process;"
    f"process.DRIVER = {FAKE!r}; main(['up', '--foreground'])"
)


@pytest.mark.parametrize(("answer", "state"), [("run it", "running"), ("keep it", "stopped")])
def test_a_stopped_pipeline_whose_record_is_damaged_waits_for_a_person(
    living: Project, answer: str, state: str
) -> None:
    living.headrace("up")
    living.headrace("stop", "hello")
    living.headrace("down")
    living.places.desired("hello").write_text('{"pipeline": "hel')
    (seen,) = living.json("status")["pipelines"]

    child = subprocess.Popen([sys.executable, "-c", FOREGROUND], cwd=living.folder)
    try:
        eventually(lambda: "start hello" in living.json("status")["pipelines"][0]["why"])
        (found,) = living.json("status")["pipelines"]
        ran = len(list(living.places.runs.glob("hello-*")))
        commands = re.findall(r"(run it|keep it)[^;]*?: headrace ([a-z]+) (\w+)", found["why"])
        (fix,) = [rest for word, *rest in commands if word == answer]
        done = living.headrace(*fix)

        assert (seen["state"], found["state"], ran) == ("needs-attention", "needs-attention", 1)
        assert done.exit_code == 0, done.output
        eventually(lambda: living.json("status")["pipelines"][0]["state"] == state)
    finally:
        child.terminate()
        assert child.wait(60) == 0
    after = desired.read(living.places, "hello")
    assert after is not None
    assert after.wanted == state
    assert len(list(living.places.runs.glob("hello-*"))) == (2 if state == "running" else 1)


def test_a_supervisor_that_does_not_answer_is_told(
    living: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.state import requests

    living.deployed()
    living.supervised()
    real = requests.answer_of
    monkeypatch.setattr(requests, "answer_of", lambda places, id_, _s: real(places, id_, 0.1))

    done = living.headrace("start", "hello")

    assert done.exit_code == 3
    assert "did not answer" in done.stderr
    living.places.supervisor_process.unlink()


def test_a_state_folder_that_others_may_write_to_is_refused(living: Project) -> None:
    living.places.state.mkdir()
    living.places.state.chmod(0o777)

    done = living.headrace("run", "hello")

    assert done.exit_code == 3
    assert "chmod 700" in done.stderr
    assert list(living.places.state.iterdir()) == []
