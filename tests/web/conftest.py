"""A project with some history, and an HTTP client of the app. No JVM."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient

from cli.stage import PIPELINE, Project, failed, started
from headrace import config
from headrace.model.alerts import OpenAlert
from headrace.model.progress import from_spark
from headrace.model.runs import RunSpec
from headrace.state import api_keys
from headrace.state.api_keys import KeyKind, Role
from headrace.store import alerts, db, events, progress, runs
from headrace.web import app
from headrace.web.visit import Site

TOML = '[project]\nname = "shop"\n[web]\nport = 8321\n'
HOST = "127.0.0.1:8321"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.delenv("HEADRACE_PROFILE", raising=False)
    folder = tmp_path / "project"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "headrace.toml").write_text(TOML)
    (folder / "pipelines" / "hello.py").write_text(PIPELINE)
    return Project(folder)


def with_history(project: Project, now: float | None = None) -> str:
    """One pipeline that failed once and runs now, with progress and an alert. Returns its run."""
    now = now or time.time()
    project.deployed()
    first = project.ran(number=1, exit=failed(), log="first line\nboom\n")
    run = project.ran(number=2, events=started(), log="hello\n", is_live=True)
    conn = db.open_history(project.places.history)
    for name, at in ((first, now - 300), (run, now - 200)):
        spec = RunSpec(name, "hello", str(project.folder), str(project.places.state), "aaaa1111",
                       "dev", "pipelines/hello.py", at=at, restarts=int(name == run))  # fmt: skip
        runs.record_start(conn, spec)
    runs.record_end(conn, first, failed(), now - 250)
    events.add(conn, now - 250, "hello", first, "run_ended", "the run ended: failed")
    for batch in range(60):
        body = {
            "batchId": batch, "numInputRows": 100, "inputRowsPerSecond": 50.0,
            "processedRowsPerSecond": 500.0,
            "durationMs": {"triggerExecution": 200, "addBatch": 150, "walCommit": 20},
        }  # fmt: skip
        progress.add(conn, "hello", run, "kept", now - 180 + 3 * batch, from_spark(body))
    conn.close()
    conn = db.open_alerts(project.places.alerts)
    load = OpenAlert("k", "row", "hello", "Load is high", "critical", "kept")
    alerts.open_once(conn, load, now - 10)
    conn.close()
    return run


HTTP_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"


class Fields(NamedTuple):
    """A row of the page on the API: the fields of a response, or of (each of) a value in it."""

    endpoint: str
    inside: str
    is_each: bool
    names: set[str]


def documented_fields() -> Iterator[Fields]:
    section = HTTP_PAGE.read_text().split("## Fields")[1].split("\n## ")[0]
    for response, fields in re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.M):
        inside = "".join(re.findall(r"`(\w+)`", response))
        for endpoint in re.findall(r"`((?:GET|POST) \S+)`", response):
            names = set(re.findall(r"`(\w+)`", fields))
            yield Fields(endpoint, inside, "each of" in response, names)


def undocumented(endpoint: str, answer: dict[str, Any]) -> list[str]:
    """Fields of the response that the page lacks, and fields of the page that it does not have."""
    wrong = []
    for row in documented_fields():
        if row.endpoint == endpoint:
            value = answer[row.inside] if row.inside else answer
            if row.is_each:
                value = next(iter(value.values() if isinstance(value, dict) else value))
            wrong += [f"{row.inside}.{name}" for name in sorted(set(value) ^ row.names)]
    return wrong


@dataclass
class Visitor:
    """An HTTP client of the app, with keys."""

    project: Project
    http: TestClient

    def key(self, kind: KeyKind, role: Role = Role.OPERATE, life_s: float | None = 60.0) -> str:
        return api_keys.make(self.project.places, kind, "tester", role, time.time(), life_s)

    def log_in(self, role: Role = Role.OPERATE) -> None:
        done = self.http.get(f"/?token={self.key(KeyKind.LOGIN, role)}", follow_redirects=False)
        assert done.status_code == 303, done.text
        self.http.headers["x-headrace-proof"] = done.headers["location"].partition("#proof=")[2]

    def get(self, path: str, code: int = 200, **more: Any) -> Any:
        done = self.http.get(path, **more)
        assert done.status_code == code, (done.status_code, done.text)
        return done.json()

    def post(self, path: str, body: Any, code: int = 200, **more: Any) -> Any:
        done = self.http.post(path, json=body, **more)
        assert done.status_code == code, (done.status_code, done.text)
        return done.json()


@pytest.fixture
def visitor(project: Project) -> Iterator[Visitor]:
    """Not logged in yet."""
    site = Site(config.load(project.folder))
    with TestClient(app.build(site), base_url=f"http://{HOST}") as http:
        yield Visitor(project, http)


@pytest.fixture
def inside(visitor: Visitor) -> Visitor:
    visitor.log_in()
    return visitor
