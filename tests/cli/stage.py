"""A project, what runs leave behind in it, and the command line on it. No JVM."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from headrace import process_identity
from headrace.cli.main import main
from headrace.json_file import write_json
from headrace.model.events import Event, EventKind
from headrace.model.runs import Desired, Exit, RunSpec
from headrace.model.state_paths import StatePaths
from headrace.state import desired

PIPELINE = """\
import headrace as hr


@hr.stream(to="words", every="2 seconds")
def kept(lines):
    return lines
"""
SETTINGS = '[project]\nname = "test"\n'


@dataclass
class Project:
    """A project folder, and shortcuts to leave in it what processes would have left."""

    folder: Path

    @property
    def places(self) -> StatePaths:
        return StatePaths(self.folder / ".headrace")

    def headrace(self, *args: str, input: str | None = None) -> Result:
        """Runs the command; an exception that is not an exit is the test's own failure."""
        done = CliRunner().invoke(main, ["--project", str(self.folder), *args], input=input)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return done

    def json(self, *args: str, code: int = 0) -> Any:
        done = self.headrace(*args, "--json")
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    def deployed(self, name: str = "hello", **changes: Any) -> Desired:
        facts = {"wanted": "running", "version": "aaaa1111", "profile": "dev", **changes}
        item = Desired(pipeline=name, file=f"pipelines/{name}.py", **facts)
        desired.write(self.places, item)
        return item

    def ran(
        self,
        name: str = "hello",
        *,
        number: int = 1,
        events: tuple[Event, ...] = (),
        log: str = "",
        exit: Exit | None = None,
        is_live: bool = False,
        **changes: Any,
    ) -> str:
        """A run's folder. A live one is said to be this very process: that surely lives."""
        run = f"{name}-20260101T00000{number}-ab{number:02d}"
        spec = RunSpec(
            run=run, pipeline=name, project=str(self.folder), state=str(self.places.state),
            version="aaaa1111", profile="dev", file=f"pipelines/{name}.py", at=1000.0 + number,
        )  # fmt: skip
        write_json(self.places.spec(run), {**spec.to_json(), **changes})
        if is_live:
            me = process_identity.identify(os.getpid())
            assert me is not None
            write_json(self.places.process(run), me.to_json())
        if exit is not None:
            write_json(self.places.exit(run), exit.to_json())
            body = {"exit": exit.to_json(), "noticed_at": exit.at, "lived_s": 1.0}
            outcome = {**body, "has_worked": False, "committed": {}}
            write_json(self.places.run(run) / "outcome.json", outcome)
        lines = "".join(event.to_line() + "\n" for event in events)
        self.places.events(run).write_text(lines)
        self.places.log(run).write_text(log)
        return run

    def supervised(self) -> None:
        """As if this very process were the supervisor: it lives, and answers nobody."""
        me = process_identity.identify(os.getpid())
        assert me is not None
        write_json(self.places.supervisor_process, me.to_json())


def started(pid: int = 4711) -> tuple[Event, ...]:
    """The first events of a run with one query that has committed batch 3."""
    progress = {"batchId": 3, "numInputRows": 20, "inputRowsPerSecond": 10.0}
    return (
        Event(
            1000.0, EventKind.RUN_STARTED, data={"pid": pid, "jvm_pid": 4712, "spark_version": "4"}
        ),
        Event(1001.0, EventKind.DEFINED, data={"queries": ["kept"]}),
        Event(1002.0, EventKind.QUERY_STARTED, "kept", {"guarantee": "exactly-once"}),
        Event(1003.0, EventKind.PROGRESSED, "kept", {"progress": progress}),
        Event(1004.0, EventKind.SAMPLED, data={"queries": {"kept": {"data_available": False}}}),
    )


def failed(at: float = 1010.0, **changes: Any) -> Exit:
    error = {
        "slug": "divide", "what": "Division by zero.", "why": "n is 0",
        "where": "pipelines/hello.py:6", "fix": "guard n",
    }  # fmt: skip
    facts = {"query": "kept", "batch": 4, "kind": "data", "fingerprint": "f", **changes}
    return Exit("failed", 1, at, error=error, **facts)


def eventually(check: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (answer := check()):
        assert time.monotonic() < deadline, f"never came true; last: {answer!r}"
        time.sleep(0.02)
    return answer
