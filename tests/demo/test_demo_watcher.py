"""What the demo takes for the end of its pipeline, and its last line of JSON. No JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.stage import Project, failed, started
from headrace.cli.demo_screen import Watcher
from headrace.demo import folder, loss_count
from headrace.demo.file_transport import FileTransport
from headrace.demo.latency import Latency
from headrace.project.workspace import open_workspace


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder.prepare(tmp_path)
    return Project(tmp_path)


def watcher(project: Project, generation: int) -> Watcher:
    project.deployed("metrics", generation=generation)
    demo, _, _ = folder.prepare(project.folder)
    work = open_workspace(project.folder, "dev")
    made = Watcher(work, demo, FileTransport(work.settings, demo), "aaaa1111", rate=300)
    made.look()
    return made


def test_what_an_earlier_deployment_left_is_not_the_end(project: Project) -> None:
    project.ran("metrics", exit=failed(), generation=1)

    assert watcher(project, generation=1).is_over()
    assert not watcher(project, generation=2).is_over()


def test_a_run_that_lives_is_not_over(project: Project) -> None:
    project.ran("metrics", exit=failed(), generation=2)
    project.ran("metrics", number=2, events=started(), is_live=True, generation=2)

    assert not watcher(project, generation=2).is_over()


def test_nothing_is_over_before_the_first_run(project: Project) -> None:
    assert not watcher(project, generation=1).is_over()


def test_the_last_line_has_the_keys_that_programs_read(project: Project) -> None:
    project.ran("metrics", events=started(), is_live=True)
    counted = loss_count.Count(
        {"history": loss_count.OutputCount(lost=2, doubled=1, late=3)}, 5, 4, 2, 1
    )

    told = watcher(project, generation=1).to_json(counted, {"kept": Latency(1.25, 9.0, 20)})

    assert told == {
        "lost": 2,
        "doubled": 1,
        "late": 3,
        "malformed": 5,
        "quarantined": 4,
        "restarts": 0,
        "repeated": 0,
        "files": 0,
        "latency_ms": {"kept": {"p50": 1.2, "p99": 9.0, "count": 20}},
        "alerts": {"overloaded": 2, "silent": 1},
        "queries": {"kept": {"rows_in": 20, "rows_out": 0, "batches": 1, "fresh_p50_ms": None}},
    }
