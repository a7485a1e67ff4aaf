"""`why` puts what is known in plain words: what failed, where, what to do, what happens next."""

from __future__ import annotations

from cli.stage import Project, failed, started
from headrace.model.runs import Exit
from headrace.model.status import PipelineStatus
from headrace.project.why import what_next
from headrace.store import db
from headrace.store import runs as stored_runs

TRACE = """\
org.apache.spark.SparkException: Job aborted
Traceback (most recent call last):
  File "pipelines/hello.py", line 6, in kept
    return 1 / 0
ZeroDivisionError: division by zero

\tat org.apache.spark.X
"""


def test_why_explains_the_last_failure_and_the_users_own_trace(project: Project) -> None:
    project.deployed()
    trace = project.folder / "trace.txt"
    trace.write_text(TRACE)
    for number in (1, 2, 3):
        project.ran(number=number, exit=failed(trace=str(trace)))

    words = project.headrace("why", "hello").stdout

    for part in (
        "hello is needs-attention",
        "Division by zero.",
        "n is 0",
        "pipelines/hello.py:6",
        "guard n",
        "query kept, batch 4",
        "ZeroDivisionError: division by zero",
        str(trace),
    ):
        assert part in words
    assert "org.apache.spark.X" not in words


def test_why_of_a_healthy_pipeline_says_that_nothing_failed(project: Project) -> None:
    project.deployed()
    project.ran(events=started(), is_live=True)
    project.supervised()

    words = project.headrace("why", "hello").stdout

    assert "hello is running" in words
    assert "No run has failed." in words


def test_why_shows_all_problems_of_a_refusal(project: Project) -> None:
    project.deployed()
    problems = ({"what": "First thing."}, {"what": "Second thing."})
    project.ran(exit=Exit("refused", 2, 1.0, error={"what": "2 problems"}, problems=problems))

    words = project.headrace("why", "hello").stdout

    assert "First thing." in words
    assert "Second thing." in words


def test_why_as_json_carries_the_failure(project: Project) -> None:
    project.deployed()
    run = project.ran(exit=failed())

    body = project.json("why", "hello")

    assert body["failed_run"] == run
    assert body["failure"]["error"]["slug"] == "divide"
    assert body["pipeline"]["name"] == "hello"


def test_why_takes_a_query_and_a_never_deployed_pipeline(project: Project) -> None:
    words = project.headrace("why", "hello").stdout

    assert "not deployed" in words
    assert "headrace up hello" in words


def test_what_comes_next_after_a_backoff_is_told_with_its_time() -> None:
    status = PipelineStatus("hello", "waiting", "because", next_start_at=112.0)

    words = what_next(status, is_watched=True, now=100.0)

    assert "in 12 s" in words


def test_without_a_supervisor_nobody_will_start_it_again() -> None:
    status = PipelineStatus("hello", "running", "1 query")

    assert "headrace up" in what_next(status, is_watched=False, now=0.0)


def test_a_failure_that_keeps_a_pipeline_down_comes_before_everything_else(
    project: Project,
) -> None:
    project.deployed()
    for number in (1, 2, 3):
        project.ran(number=number, exit=failed())

    words = project.headrace("why", "hello").stdout

    assert project.json("why", "hello")["is_current"]
    assert "what to do: guard n" in words
    assert "Headrace: No supervisor is running" in words


def test_why_counts_how_often_the_same_failure_occurred(project: Project) -> None:
    project.deployed()
    project.ran(number=1, exit=failed(at=1005.0, fingerprint="other"))
    for number, at in ((2, 1020.0), (3, 1030.0), (4, 1040.0)):
        project.ran(number=number, exit=failed(at=at))

    words = project.headrace("why", "hello").stdout
    seen = project.json("why", "hello")["seen"]

    assert "seen: 3 times since 1970-01-01 00:17:00Z, fingerprint f" in words
    assert seen == {"times": 3, "first_at": 1020.0, "last_at": 1040.0, "fingerprint": "f"}


def test_why_counts_runs_whose_folders_are_gone_by_the_history(project: Project) -> None:
    project.deployed()
    conn = db.open_history(project.places.history)
    for number in range(5):
        stored_runs.record_end(conn, f"hello-20250101T00000{number}-zz", failed(at=500.0), 500.0)
    conn.close()
    project.ran(exit=failed())

    assert project.json("why", "hello")["seen"]["times"] == 6
