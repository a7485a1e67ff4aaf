"""The border: every error ends as words and the right code."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cli.stage import Project
from headrace import __version__
from headrace.cli import main as cli_main
from headrace.cli import status
from headrace.cli.main import main

HEAVY = ("pyspark", "pydantic", "duckdb", "pandas", "psutil", "rich", "sqlite3")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom headrace.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert "Commands:" in done.stdout
    assert done.stderr.strip() == "[]"


def test_an_interrupt_while_python_imports_shows_no_traceback() -> None:
    code = (
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'headrace.cli.options':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from headrace.__main__ import main\nmain()\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Interrupted.\n")


def test_the_version_is_told() -> None:
    done = CliRunner().invoke(main, ["--version"])

    assert (done.exit_code, done.stdout) == (0, f"headrace {__version__}\n")


def test_an_error_says_what_why_and_fix_on_stderr_with_its_code(project: Project) -> None:
    done = project.headrace("start", "hello")

    assert done.exit_code == 3
    assert done.stdout == ""
    assert "No supervisor is running" in done.stderr
    assert "fix:" in done.stderr
    assert "headrace up" in done.stderr


def test_with_json_an_error_is_one_object_on_stdout(project: Project) -> None:
    body = project.json("why", "nobody", code=2)

    assert set(body) == {"error"}
    assert set(body["error"]) == {"slug", "what", "why", "where", "fix"}
    assert body["error"]["slug"] == "unknown-name"


def test_a_usage_error_has_the_same_json_shape(project: Project) -> None:
    body = project.json("wait", "hello", "--until", "tomorrow", code=2)

    assert body["error"]["slug"] == "usage"
    assert "tomorrow" in body["error"]["what"]


def test_a_misspelt_command_gets_the_near_miss() -> None:
    done = CliRunner().invoke(main, ["statsu"])

    assert done.exit_code == 2
    assert 'Did you mean "status"?' in done.stderr


def test_a_misspelt_pipeline_gets_the_near_miss(project: Project) -> None:
    project.deployed("hello")

    done = project.headrace("why", "helo")

    assert done.exit_code == 2
    assert 'Did you mean "hello"?' in done.stderr


def test_an_unexpected_exception_is_one_line_and_a_hint(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status.status, "callback", lambda *_, **__: 1 / 0)

    done = project.headrace("status")

    assert done.exit_code == 1
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "--debug" in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status.status, "callback", lambda *_, **__: 1 / 0)

    done = project.headrace("status", "--debug")

    assert done.exit_code == 1
    assert "Traceback" in done.stderr


def test_what_follows_two_dashes_is_the_scripts_and_not_the_borders() -> None:
    code = cli_main._handle_exception(
        ValueError("x"), ["run", "script.py", "--", "--json", "--debug"]
    )

    assert code == 1


def test_a_missing_project_folder_is_told(project: Project) -> None:
    done = project.headrace("--project", "nowhere", "status")

    assert done.exit_code == 2
    assert 'The folder "nowhere" does not exist' in done.stderr


def test_a_bad_setting_is_told_with_its_place(project: Project) -> None:
    (project.folder / "headrace.toml").write_text("[projetc]\nname = 1\n")

    body = project.json("status", code=2)

    assert "projetc" in json.dumps(body)


def test_the_profile_comes_from_the_environment_and_the_option_wins(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PROFILE", "nowhere")

    by_environment = project.headrace("status")
    by_option = project.headrace("--profile", "dev", "status")

    assert by_environment.exit_code == 2
    assert "nowhere" in by_environment.stderr
    assert by_option.exit_code == 0
