"""What bad input gets, through the command line: words, a code, and nothing written.

Whatever can be refused without Spark is tried with a Java that only notes that it was started, so
that a JVM started for nothing is a failure here. `lived` is one project that ran well once; what
is done to its checkpoint is done to copies, except where the repair is tried as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e import rig
from headrace.checkpoints import committed_files

pytestmark = pytest.mark.e2e
QUERY = Path("checkpoints/once/copied")
CANARY = "cAnArY7xQ2"


@dataclass(frozen=True)
class Java:
    """A Java that spark-submit would start, and that only leaves a note of it."""

    home: Path
    note: Path

    @classmethod
    def make(cls, folder: Path, version: str) -> Java:
        java = cls(folder, folder / "started")
        (folder / "bin").mkdir(parents=True)
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
        (folder / "bin" / "java").write_text(f"#!/bin/sh\ntouch {java.note}\nexit 1\n")
        (folder / "bin" / "java").chmod(0o755)
        return java

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "JAVA_HOME": str(self.home)}


@pytest.fixture
def java(tmp_path: Path) -> Java:
    return Java.make(tmp_path / "java", "17.0.1")


@pytest.fixture
def once(tmp_path: Path) -> rig.Project:
    project = rig.Project.copy("once", tmp_path / "project")
    project.give("a")
    return project


def define(project: rig.Project, text: str, name: str = "once") -> None:
    (project.folder / "pipelines" / f"{name}.py").write_text(text)


def refused(
    project: rig.Project,
    command: str,
    code: int,
    words: tuple[str, ...],
    java: Java | None = None,
    env: dict[str, str] | None = None,
) -> str:
    """Runs it, and holds it to what every refusal owes: words, code, no trace, nobody left."""
    said = project.headrace(*command.split(), code=code, env=java.env if java else env)
    for word in words:
        assert word in said, f"headrace {command}: {word!r} is missing in:\n{said}"
    assert "fix:" in said
    assert "Traceback" not in said
    assert written(project) == []
    # The JVM of a check, if there was one, tidies up for a moment after its last word.
    rig.eventually(f"nobody is left, not {project.living()}", lambda: not project.living(), 15)
    assert java is None or not java.note.exists(), "a JVM was started to find this"
    return said


def written(project: rig.Project) -> list[str]:
    """Traces of something that ran, or that should: a refusal leaves none."""
    marks = ["data", f"{QUERY}/v1", ".headrace/supervisor.json"]
    found = [mark for mark in marks if (project.folder / mark).exists()]
    for path in (project.state / "desired").glob("*.json"):
        # `run` deploys before it can know. What it left is held, never started by a later one.
        status = project.status(path.stem)
        if status["state"] != "needs-attention" or not json.loads(path.read_text())["dev"]:
            found.append(str(path))
    return found


def rows(project: rig.Project) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in committed_files.files(project.folder / "data" / "out"):
        lines = Path(one.path).read_text().splitlines()
        found.update(json.loads(line)["value"] for line in lines)
    return found


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "16m") -> Iterator[Path]:
    """A disk of its own, so that root too can meet a full or a read-only one."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


# The user's file


@pytest.mark.parametrize("command", ["check", "up", "run once"])
def test_a_syntax_error_is_told_with_its_line(once: rig.Project, java: Java, command: str) -> None:
    define(once, "import headrace as hr\n\n\n@hr.stream(to='out')\ndef copied(lines:\n    pass\n")
    said = refused(once, command, 2, ("pipelines/once.py is not valid Python", "once.py:5"), java)
    assert "Line 5: def copied(lines:" in said


@pytest.mark.parametrize("command", ["check", "up", "run once"])
def test_a_missing_module_is_told_from_a_missing_file(
    once: rig.Project, java: Java, command: str
) -> None:
    define(once, "import headrace as hr\nimport no_such_module\n\n@hr.stream(to='out')\n"
                 "def copied(lines):\n    return lines\n")  # fmt: skip
    words = ("No module named 'no_such_module'", "pipelines/once.py:2", "-m pip install")
    said = refused(once, command, 2, words, java)
    assert "There is no" not in said


@pytest.mark.parametrize("command", ["check", "up", "run"])
def test_a_missing_file_or_a_misspelt_name_offers_the_near_miss(
    once: rig.Project, java: Java, command: str
) -> None:
    for name in ("onec", "pipelines/onces.py"):
        words = (f'Unknown pipeline or file "{name}"', 'Did you mean "once"?')
        refused(once, f"{command} {name}", 2, words, java)
    assert not once.state.exists(), "not even the state folder"


@pytest.mark.parametrize("command", ["check", "up", "run once", "status"])
def test_a_misspelt_setting_is_told_with_its_line(
    once: rig.Project, java: Java, command: str
) -> None:
    toml = once.folder / "headrace.toml"
    toml.write_text(toml.read_text().replace("retries = 0", "retires = 0"))
    words = ("Unknown setting 'retires'", "headrace.toml:13", "Did you mean 'retries'?")
    refused(once, command, 2, words, java)
    assert not once.state.exists()


def test_a_misspelt_field_of_a_sink_is_told_with_its_line(once: rig.Project, java: Java) -> None:
    toml = once.folder / "headrace.toml"
    toml.write_text(toml.read_text().replace('path = "data/out"', 'pth = "data/out"'))
    words = ("'out': json has no field 'pth'", "headrace.toml:8", "Did you mean 'path'?")
    refused(once, "check", 2, words, java)


WRONG_NAMES = """\
import headrace as hr


@hr.stream(to=hr.json("data/a"))
def same(lines):
    return lines


@hr.stream(to=hr.json("data/b"))
def same(lines):
    return lines


@hr.stream(to=hr.json("data/c"))
def misspelt(linse):
    return linse


@hr.stream(to="otu")
def lost(lines):
    return lines
"""


@pytest.mark.parametrize("command", ["check", "up"])
def test_wrong_names_are_found_together_and_without_spark(
    once: rig.Project, java: Java, command: str
) -> None:
    define(once, WRONG_NAMES)
    words = (
        "'same' is used twice: at pipelines/once.py:5 and at pipelines/once.py:10",
        "'misspelt' has an unknown input: 'linse'",
        "pipelines/once.py:15",
        "Did you mean 'lines'?",
        "'lost' writes to an unknown sink: 'otu'",
        "Did you mean 'out'?",
        "3 problems found",
    )
    refused(once, command, 2, words, java)


WRONG_QUERIES = """\
import headrace as hr


@hr.stream(to=hr.json("data/a"))
def nothing(lines):
    lines.select("value")


@hr.stream(to=hr.json("data/b"))
def batch(spark):
    return spark.range(3)


@hr.stream(to=hr.json("data/c"))
def number(lines):
    return 3


@hr.stream(to=hr.json("data/d"))
def column(lines):
    return lines.select("valeu")


@hr.stream(to=hr.json("data/e"))
def mode(lines):
    return lines.groupBy("value").count()


@hr.stream(to=hr.json("data/f"))
def unknown(linnes):
    return linnes
"""


def test_wrong_queries_of_all_files_are_found_in_one_check(once: rig.Project) -> None:
    define(once, WRONG_QUERIES)
    define(once, WRONG_NAMES, "names")
    define(once, "import headrace as hr\ndef broken(:\n", "syntax")
    words = (
        "'nothing' returned None, not a DataFrame",
        "pipelines/once.py:5",
        "'batch' is not a stream",
        "pipelines/once.py:10",
        "'number' returned int 3, not a DataFrame",
        "pipelines/once.py:15",
        "`valeu` cannot be resolved",
        "pipelines/once.py:21",
        "Did you mean 'value'?",
        "'mode' cannot run in append mode",
        "pipelines/once.py:25",
        "the query supports update, complete",
        "'unknown' has an unknown input: 'linnes'",
        "pipelines/once.py:30",
        "'same' is used twice",
        "'misspelt' has an unknown input: 'linse'",
        "'lost' writes to an unknown sink: 'otu'",
        "pipelines/syntax.py is not valid Python",
        "10 problems found",
    )
    refused(once, "check", 2, words)


# The machine


@pytest.mark.parametrize("command", ["check", "up", "run once"])
def test_without_java_it_says_what_to_install(once: rig.Project, command: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    env["PATH"] = str(once.folder / "pipelines")  # a folder without any program
    words = ("Java not found", "JAVA_HOME is not set", "Install Java 17 or 21")
    refused(once, command, 3, words, env=env)


def test_a_java_home_without_java_is_named(once: rig.Project) -> None:
    env = {**os.environ, "JAVA_HOME": "/no/such/java"}
    refused(once, "check", 3, ("does not contain Java", "/no/such/java/bin/java"), env=env)


@pytest.mark.parametrize("command", ["check", "up", "run once"])
def test_an_old_java_is_named_with_its_version(
    once: rig.Project, tmp_path: Path, command: str
) -> None:
    old = Java.make(tmp_path / "old", "11.0.22")
    words = ("Java 11 is too old", f"{old.home}/bin/java", "Install Java 17 or 21")
    refused(once, command, 3, words, java=old)


@pytest.mark.parametrize("command", ["check", "up", "run once"])
def test_a_state_folder_that_others_own_or_may_write_is_refused(
    once: rig.Project, java: Java, command: str
) -> None:
    once.state.mkdir(mode=0o700)
    os.chown(once.state, 65534, 65534)
    words = ("belongs to user 65534, but this command runs as user 0", str(once.state), "owner")
    refused(once, command, 3, words, java)
    os.chown(once.state, 0, 0)
    once.state.chmod(0o770)
    words = ("Other users can write to the state folder (mode 770)", f"chmod 700 {once.state}")
    refused(once, command, 3, words, java)
    assert list(once.state.iterdir()) == []


def test_a_second_supervisor_is_refused_and_names_the_first(
    once: rig.Project, tmp_path: Path, java: Java
) -> None:
    command = [sys.executable, "-m", "headrace.supervisor.main", str(once.folder)]
    with (tmp_path / "log").open("w") as log:
        first = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        rig.eventually("it holds the lock", lambda: (once.state / "supervisor.json").exists(), 20)
        said = once.headrace("up", "--foreground", code=3, env=java.env)
        second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert first.poll() is None, "the first one is not disturbed"
    finally:
        first.terminate()
        assert first.wait(20) == 0
    assert f"process {first.pid}" in said
    assert "headrace down" in said
    assert second.returncode == 3, second.stderr
    assert f"process {first.pid}" in second.stderr
    assert not java.note.exists()
    assert written(once) == []


# The checkpoint


@dataclass(frozen=True)
class Lived:
    """A project whose pipeline ran once, to its end, with a Spark UI whose port was taken."""

    project: rig.Project
    said: str
    port: int

    def copy(self, target: Path) -> rig.Project:
        """For what will be refused: the copy's input is at another path, so it may not run."""
        project = self.copy_with_data(target)
        shutil.rmtree(target / "data")
        return project

    def copy_with_data(self, target: Path) -> rig.Project:
        """May run from the beginning, with a checkpoint of its own."""
        shutil.copytree(self.project.folder, target, ignore=shutil.ignore_patterns(".headrace"))
        return rig.Project(target)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    project = rig.Project.copy("once", tmp_path_factory.mktemp("lived") / "project")
    project.give("a")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        toml = project.folder / "headrace.toml"
        (project.folder / "secret").write_text(CANARY)
        ui = f'"spark.ui.enabled" = "true"\n"spark.ui.port" = "{port}"\n'
        ui += f'"spark.shop.password" = "${{file:{project.folder}/secret}}"\n'
        toml.write_text(toml.read_text() + ui)
        done = subprocess.run(
            project.command("run", "once"), capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    toml.write_text(toml.read_text().replace(ui, ""))
    return Lived(project, done.stdout + done.stderr, port)


def content(folder: Path) -> dict[str, bytes]:
    """All files below it except the lock, which holds nothing."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "v1.lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refused_untouched(project: rig.Project, words: tuple[str, ...]) -> str:
    """`run` is refused with code 3, and the checkpoint is byte for byte what it was."""
    before = content(project.folder / "checkpoints")
    said = project.headrace("run", "once", code=3)
    for word in words:
        assert word in said, f"{word!r} is missing in:\n{said}"
    assert "fix:" in said
    assert "once did not start" in said
    assert not (project.folder / "data").exists()
    assert project.living() == []
    assert content(project.folder / "checkpoints") == before
    assert len(list((project.state / "runs").glob("once-*"))) == 1, "it is not tried again"
    return said


def test_a_taken_port_of_the_spark_ui_moves_it_to_the_next(lived: Lived) -> None:
    assert f"could not bind on port {lived.port}" in lived.said
    assert f"Attempting port {lived.port + 1}" in lived.said
    assert "finished: all input has been processed" in lived.said


def test_a_run_leaves_no_secret_and_shows_its_checkpoints_to_nobody_else(lived: Lived) -> None:
    held = content(lived.project.state)

    assert [path for path in held if CANARY.encode() in held[path]] == []
    (kept,) = lived.project.state.glob("runs/once-*/conf/settings.conf")
    assert (lived.project.folder / "checkpoints").stat().st_mode & 0o077 == 0
    assert f"spark.shop.password ${{file:{lived.project.folder}/secret}}" in kept.read_text()


def test_a_checkpoint_of_another_query_is_refused(lived: Lived, tmp_path: Path) -> None:
    project = lived.copy(tmp_path / "project")
    note = project.folder / QUERY / "v1.json"
    note.write_text(note.read_text().replace('"copied"', '"orders"'))
    words = ("belongs to once/orders in project 'once'", "not to once/copied", f"{QUERY}/v1")
    refused_untouched(project, words)


def test_a_damaged_offsets_file_is_refused_and_named(lived: Lived, tmp_path: Path) -> None:
    project = lived.copy(tmp_path / "project")
    offsets = project.folder / QUERY / "v1" / "offsets" / "0"
    offsets.write_bytes(offsets.read_bytes()[:-8])
    words = ("The checkpoint of once/copied cannot be used", str(offsets), "incomplete JSON")
    refused_untouched(project, words)


HOLDER = """\
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_checkpoint_held_by_another_process_names_it(lived: Lived, tmp_path: Path) -> None:
    project = lived.copy(tmp_path / "project")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(project.folder / QUERY / "v1.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin
    assert holder.stdout
    try:
        assert holder.stdout.readline() == b"held\n"
        words = (f"is in use by process {holder.pid}", f"ps -fp {holder.pid}", f"{QUERY}/v1.lock")
        refused_untouched(project, words)
        assert holder.poll() is None, "whoever holds it is left alone"
    finally:
        holder.stdin.close()
        holder.wait(10)
        holder.stdout.close()


def test_a_read_only_checkpoint_folder_is_refused(once: rig.Project) -> None:
    with small_disk(once.folder / "checkpoints") as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        words = (": Read-only file system", str(disk), "Make the folder writable")
        refused_untouched(once, words)


def test_a_lost_metadata_file_is_refused_and_the_told_command_repairs_it(lived: Lived) -> None:
    project = lived.project
    query_id = json.loads((project.folder / QUERY / "v1.json").read_text())["query_id"]
    before = rows(project)
    (project.folder / QUERY / "v1" / "metadata").unlink()
    project.give("b")
    said = project.headrace("run", "once", code=3)
    assert "has no `metadata` file" in said
    assert rows(project) == before, "never silently restarted"

    fix = re.search(r"^  fix:   (rm -f .*)$", said, re.M)
    assert fix, said
    subprocess.run(["sh", "-c", fix[1]], check=True)
    project.headrace("run", "once")
    assert rows(project) == Counter({"a": 1, "b": 1})
    assert json.loads((project.folder / QUERY / "v1" / "metadata").read_text())["id"] == query_id
    assert project.living() == []


def set_a_new_checkpoint(project: rig.Project) -> None:
    """As the catalogue recommends for a changed key, and forgets the sink."""
    toml = project.folder / "headrace.toml"
    toml.write_text(f'{toml.read_text()}\n[pipelines.once.queries.copied]\ncheckpoint = "new"\n')


def delete_the_sink_s_log(project: rig.Project) -> None:
    shutil.rmtree(project.folder / "data" / "out" / "_spark_metadata")


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (set_a_new_checkpoint, "but the checkpoint is new"),
        (delete_the_sink_s_log, "out/_spark_metadata does not exist"),
    ],
)
def test_a_sink_that_does_not_fit_its_checkpoint_is_refused_and_the_fix_loses_nothing(
    lived: Lived, tmp_path: Path, java: Java, do: Callable[[rig.Project], None], words: str
) -> None:
    project = lived.copy_with_data(tmp_path / "project")
    project.give("c")
    do(project)
    before = content(project.folder / "data")

    said = project.headrace("run", "once", code=3, env=java.env)

    assert words in said
    assert not java.note.exists(), "a JVM was started to find this"
    assert content(project.folder / "data") == before
    assert project.status("once")["state"] == "needs-attention"

    commands = re.search(r"still have, run: (mv .*)$", said, re.M)
    assert commands, said
    subprocess.run(["sh", "-c", commands[1]], check=True)
    project.headrace("run", "once")
    assert rows(project) == Counter(path.name for path in (project.folder / "incoming").iterdir())
    assert project.living() == []


def test_a_full_disk_is_told_and_the_pipeline_goes_on_when_space_returns(tmp_path: Path) -> None:
    project = rig.Project.copy("small", tmp_path / "project")
    toml = project.folder / "headrace.toml"
    toml.write_text(toml.read_text() + '[restart]\ndelay_s_max = "2 seconds"\n')
    project.give("a")
    with small_disk(project.folder / "checkpoints") as disk:
        try:
            project.headrace("up")
            rig.eventually("a is committed", lambda: is_there(project, "a"), 60)
            filler = disk / "filler"
            fill(filler)
            project.give("b")
            rig.eventually(
                "it waits for space, and an alert is open",
                lambda: "alert opened: small keeps" in project.headrace("events", "small"),
                120,
            )
            why, events = project.headrace("why", "small"), project.headrace("events", "small")
            filler.unlink()
            rig.eventually("b is committed", lambda: is_there(project, "b"), 90)
        finally:
            project.headrace("down", code=None)
    assert "disk is full" in why.lower()
    assert "`df -h` shows which disks are full" in why
    assert re.search(r"alert opened: small keeps restarting: .*disk", events), events
    assert rows(project) == Counter({"a": 1, "b": 1})
    assert project.living() == []


def fill(file: Path) -> None:
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as out:
        while True:
            out.write(b"x" * 4096)


def is_there(project: rig.Project, value: str) -> bool:
    out = project.folder / "data" / "out"
    return (out / "_spark_metadata").exists() and value in rows(project)
