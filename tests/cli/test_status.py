"""`status` and `wait`: from the store, from files alone, with and without a supervisor."""

from __future__ import annotations

import os
import time
from contextlib import closing

import pytest

from cli.stage import Project, failed, started
from headrace import process_identity
from headrace.cli import output
from headrace.define import deployed_code
from headrace.json_file import write_json
from headrace.model.findings import Finding
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.pipeline import Definition, Query
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.model.web_settings import Listening
from headrace.state import lag
from headrace.store import db, pipeline_status

PIPELINE_KEYS = {
    "name", "state", "why", "run", "version", "edited", "profile", "pid", "jvm_pid", "since",
    "restarts", "queries",
}  # fmt: skip
QUERY_KEYS = {
    "name", "state", "guarantee", "rows_in", "rows_out", "batches", "input_rate",
    "processing_rate", "lag_rows", "lag_seconds", "fresh_p50_ms", "fresh_p99_ms", "message",
    "data_available", "trigger_active",
}  # fmt: skip


def kept(project: Project, *statuses: PipelineStatus) -> None:
    """What a supervisor would have written; this process plays it."""
    project.supervised()
    with closing(db.open_history(project.places.history)) as conn:
        for status in statuses:
            pipeline_status.put(conn, status)


def running(name: str = "hello", **changes: object) -> PipelineStatus:
    query = QueryStatus("kept", "running", guarantee="exactly-once", data_available=False)
    facts = {"state": "running", "why": "1 query", "queries": (query,), **changes}
    return PipelineStatus(name, **facts)  # type: ignore[arg-type]


def test_status_json_has_the_documented_shape(project: Project) -> None:
    project.deployed()
    kept(project, running(restarts=2))

    [pipeline] = project.json("status")["pipelines"]

    assert set(pipeline) >= PIPELINE_KEYS
    assert set(pipeline["queries"][0]) >= QUERY_KEYS
    assert (pipeline["name"], pipeline["state"], pipeline["restarts"]) == ("hello", "running", 2)


@pytest.mark.parametrize("is_supervised", [True, False])
@pytest.mark.parametrize("body", ["{", "[]", '{"pipeline": 5}', '{"pipeline": {}, "wanted": []}'])
def test_a_damaged_record_of_one_pipeline_hides_no_other(
    project: Project, body: str, is_supervised: bool
) -> None:
    project.deployed("other")
    project.places.desired("hello").write_text(body)
    if is_supervised:
        kept(project, running("other"))

    hello, other = project.json("status")["pipelines"]

    assert (hello["name"], hello["state"]) == ("hello", "needs-attention")
    assert "desired/hello.json was damaged" in hello["why"]
    assert "headrace up hello" in hello["why"]
    assert (other["name"], other["version"]) == ("other", None if is_supervised else "aaaa1111")
    assert "desired/hello.json" in project.headrace("why", "hello").stdout.replace("\n", " ")


@pytest.mark.parametrize("body", ["{", "[]", '{"files": 5, "at": "x"}'])
def test_a_damaged_record_of_a_version_hides_no_pipeline(project: Project, body: str) -> None:
    version = deployed_code.snapshot(project.folder, project.places)
    project.deployed(version=version)
    project.deployed("other", version=version)
    (project.places.version(version) / "version.json").write_text(body)

    found = project.json("status")["pipelines"]

    assert [(one["name"], one["edited"]) for one in found] == [("hello", False), ("other", False)]
    assert [one["version"] for one in project.json("versions")["versions"]] == [version]


def test_status_shows_state_why_and_queries(project: Project) -> None:
    project.deployed()
    kept(project, running(why="all is well"))

    done = project.headrace("status")

    assert done.exit_code == 0
    for word in ("hello", "running", "all is well", "kept", "exactly-once"):
        assert word in done.stdout
    assert "supervisor is not running" not in done.stdout


def test_status_without_pipelines_says_how_to_begin(project: Project) -> None:
    done = project.headrace("status")

    assert done.exit_code == 0
    assert "headrace up" in done.stdout
    assert project.json("status") == {
        "supervisor": None, "page": None, "exports": [], "pipelines": []
    }  # fmt: skip


def test_status_says_where_the_page_is(project: Project) -> None:
    me = process_identity.identify(os.getpid())
    assert me is not None
    listening = Listening("http://127.0.0.1:8321", me.pid, me.started, me.boot, at=1.0)
    write_json(project.places.web, listening.to_json())

    assert project.json("status")["page"] == "http://127.0.0.1:8321"
    assert "page: http://127.0.0.1:8321 (headrace token" in project.headrace("status").stdout


def test_status_names_pipelines_that_were_never_deployed(project: Project) -> None:
    project.deployed("other", wanted="stopped")

    assert "not deployed: hello" in project.headrace("status").stdout


def test_status_without_a_supervisor_says_so_and_reads_the_runs(project: Project) -> None:
    project.deployed()
    run = project.ran(events=started(), is_live=True)

    done = project.headrace("status")
    [pipeline] = project.json("status")["pipelines"]

    assert "supervisor is not running" in done.stdout
    assert (pipeline["state"], pipeline["run"]) == ("running", run)
    assert (pipeline["pid"], pipeline["jvm_pid"]) == (os.getpid(), 4712)
    assert pipeline["queries"][0]["batch"] == 3


def test_status_works_when_the_history_is_gone_or_broken(project: Project) -> None:
    project.deployed()
    project.ran(events=started(), is_live=True)
    project.supervised()

    without = project.json("status")["pipelines"]
    project.places.history.write_text("this is no database")
    broken = project.json("status")["pipelines"]

    assert [p["state"] for p in without] == ["running"]
    assert broken == without
    assert project.places.history.read_text() == "this is no database"


def test_status_writes_nothing(project: Project) -> None:
    project.headrace("status")

    assert not project.places.state.exists()


def test_what_should_run_but_does_not_is_told(project: Project) -> None:
    project.deployed()
    project.ran(events=started())

    [pipeline] = project.json("status")["pipelines"]

    assert pipeline["state"] == "stopped"
    assert "no supervisor" in pipeline["why"]


def test_a_failure_that_needs_a_person_is_told_from_files_too(project: Project) -> None:
    project.deployed()
    for number in (1, 2, 3):
        project.ran(number=number, exit=failed())

    [pipeline] = project.json("status")["pipelines"]

    assert pipeline["state"] == "needs-attention"
    assert "Division by zero" in pipeline["why"]


def test_an_edited_file_is_told_as_edited_since_deploy(project: Project) -> None:
    project.deployed(version=deployed_code.snapshot(project.folder, project.places))

    before = project.json("status")["pipelines"][0]["edited"]
    (project.folder / "pipelines" / "hello.py").write_text("# edited\n")
    after = project.json("status")["pipelines"][0]["edited"]

    assert (before, after) == (False, True)
    assert "edited since it was deployed" in project.headrace("status").stdout


def test_a_query_can_be_named_alone_where_unique(project: Project) -> None:
    project.deployed()
    project.deployed("other", wanted="stopped")
    kept(project, running(), running("other", queries=()))

    found = project.json("status", "kept")["pipelines"]

    assert [p["name"] for p in found] == ["hello"]


def test_a_query_name_of_two_pipelines_asks_which(project: Project) -> None:
    project.deployed()
    project.deployed("other")
    kept(project, running(), running("other"))

    body = project.json("status", "kept", code=2)

    assert body["error"]["slug"] == "ambiguous-name"
    assert "hello/kept" in body["error"]["why"]


def test_a_misspelt_query_gets_the_near_miss(project: Project) -> None:
    project.deployed()
    kept(project, running())

    body = project.json("status", "hello/kepd", code=2)

    assert 'Did you mean "kept"?' in body["error"]["why"]


def test_wait_ends_when_it_runs(project: Project) -> None:
    project.deployed()
    kept(project, running())

    done = project.headrace("wait", "hello", "--until", "running", "--timeout", "5s")

    assert (done.exit_code, done.stdout) == (0, "hello is running: 1 query\n")


def test_wait_for_caught_up_needs_every_query_without_data(project: Project) -> None:
    project.deployed()
    behind = QueryStatus("counted", "running", data_available=True)
    kept(project, running(queries=(running().queries[0], behind)))

    whole = project.headrace("wait", "hello", "--until", "caught-up", "--timeout", "0s")
    one = project.headrace("wait", "hello/kept", "--until", "caught-up", "--timeout", "0s")

    assert (whole.exit_code, one.exit_code) == (1, 0)


def test_wait_that_times_out_says_what_it_was_instead(project: Project) -> None:
    project.deployed()
    kept(project, running(state="waiting", why="starts again in 4 s"))

    body = project.json("wait", "hello", "--timeout", "100ms", code=1)

    assert body["error"]["slug"] == "wait-timeout"
    assert "It is waiting: starts again in 4 s" in body["error"]["why"]


def test_wait_takes_no_nonsense_for_a_duration(project: Project) -> None:
    project.deployed()

    assert project.headrace("wait", "hello", "--timeout", "soon").exit_code == 2


def test_a_pipeline_file_with_a_bad_name_does_not_stop_status(project: Project) -> None:
    (project.folder / "pipelines" / "bad name!.py").write_text("")
    project.deployed(wanted="stopped")

    [pipeline] = project.json("status")["pipelines"]

    assert pipeline["state"] == "stopped"


def test_what_a_query_does_now_is_told_without_long_paths() -> None:
    assert output.now("Getting offsets from FileStreamSource[file:/data/in]") == (
        "Getting offsets from FileStreamSource"
    )
    assert output.now("Getting offsets from KafkaV2[Subscribe[logs]]") == (
        "Getting offsets from KafkaV2"
    )
    assert output.now("Waiting for next trigger") == "Waiting for next trigger"
    assert output.now(None) == ""


def test_status_shows_how_fresh_results_are_a_missed_target_and_late_rows(
    project: Project,
) -> None:
    project.deployed()
    broken = "p99 is 3 min; target 60 s"
    query = QueryStatus(
        "kept", "running", fresh_p50_ms=31_000.0, fresh_p99_ms=180_000.0, fresh_basis="arrival",
        fresh_within_s=60.0, broken_promise=broken, newest_at=1.0, late_rows=1_234,
    )  # fmt: skip
    why = f"1 query; kept: {broken}"
    kept(project, running(why=why, queries=(query,), cpu_s_per_million_rows=20.6))

    words = project.headrace("status").stdout
    [pipeline] = project.json("status")["pipelines"]

    for part in (why, "fresh p50 / p99", "31 s / 3 min > 60 s", "late", "1,234", "20.6 CPU s"):
        assert part in words
    assert pipeline["cpu_s_per_million_rows"] == 20.6
    assert pipeline["queries"][0]["broken_promise"] == broken
    assert pipeline["queries"][0]["late_rows"] == 1_234
    told = project.headrace("why", "hello").stdout
    assert f"problem: kept: missed freshness target: {broken}" in told
    assert "half of the rows are processed within 31 s, 99 % within 3 min of their arrival" in told
    assert "1,234 late rows were dropped" in told
    assert "does not cause a restart" in told


def test_status_says_nothing_of_what_is_not_known(project: Project) -> None:
    project.deployed()
    kept(project, running())

    words = project.headrace("status").stdout

    assert "late" not in words
    assert "CPU" not in words
    assert ">" not in words


def test_warnings_of_check_stay_visible_for_as_long_as_the_version_is_deployed(
    project: Project,
) -> None:
    project.deployed()
    project.ran(events=started(), is_live=True)
    warning = {
        "slug": "unbounded-state", "what": "The state of 'kept' grows without end.",
        "why": "There is no watermark.", "where": "pipelines/hello.py:4", "fix": "Use one.",
    }  # fmt: skip
    query = Query(
        "kept", "pipelines/hello.py:4", ("lines",), {"kind": "parquet"}, "append",
        {"kind": "every", "seconds": 2.0}, None, "exactly-once", "because",
    )  # fmt: skip
    facts = {"profile": "dev", "version": "aaaa1111", "file": "pipelines/hello.py", "nodes": ()}
    definition = Definition("hello", **facts, queries=(query,), warnings=(warning,))
    path = project.places.definition("aaaa1111", "dev", "hello")
    write_json(path, definition.to_json())

    [pipeline] = project.json("status")["pipelines"]
    told = project.json("why", "hello")["pipeline"]["findings"]

    (found,) = pipeline["findings"]
    assert (found["severity"], found["query"], found["slug"]) == (
        "warning", "kept", "unbounded-state"
    )  # fmt: skip
    assert (found["cause"], found["fix"]) == ("There is no watermark.", "Use one.")
    assert told == [found]
    assert pipeline["state"] != "degraded"
    line = "warning: kept: The state of 'kept' grows without end."
    assert line in project.headrace("status").stdout
    words = project.headrace("why", "hello").stdout
    assert line in words
    assert "cause: There is no watermark." in words


def test_a_lag_that_nobody_can_know_is_unknown_and_never_0(project: Project) -> None:
    project.deployed()
    query = QueryStatus("kept", "running", lag_rows=0, data_available=False)
    kept(project, running(queries=(query,)))
    silent = QueryLag("hello", "kept", time.time(), problem="h:9092 does not answer.")
    lag.write(project.places, [silent])

    [pipeline] = project.json("status")["pipelines"]
    (found,) = project.json("lag")["queries"]

    (seen,) = pipeline["queries"]
    assert (seen["lag_rows"], seen["lag_seconds"], seen["is_lag_unknown"]) == (None, None, True)
    assert [found[name] for name in ("records", "seconds", "gone")] == [None] * 3
    for command in ("status", "lag"):
        assert "unknown" in project.headrace(command).stdout
    assert project.headrace("wait", "hello", "--for", "caught-up", "--timeout", "0").exit_code != 0

    behind = PartitionLag("orders", 0, next=5, low=0, high=5)
    lag.write(project.places, [QueryLag("hello", "kept", time.time() - 3600, (behind,))])
    (old,) = project.json("lag")["queries"]
    assert (old["records"], old["catch_up_s"]) == (None, None)
    assert "not measured for 60 min" in old["problem"]


def test_ages_below_a_second_are_milliseconds() -> None:
    assert output.ages(240.4, 1_500.0) == "240 ms / 1.5 s"
    assert output.ages(None, None) == ""


def degraded() -> PipelineStatus:
    finding = Finding(
        "watermark-held",
        "The watermark stays.",
        "An input is idle.",
        "Let it speak.",
        query="kept",
        where="pipelines/hello.py:6",
    )
    query = QueryStatus("kept", "degraded", data_available=False, findings=(finding,))
    return running(state="degraded", why="kept: The watermark stays.", queries=(query,))


def test_a_finding_is_in_status_in_why_and_in_their_json(project: Project) -> None:
    project.deployed()
    kept(project, degraded())

    shown, why = project.headrace("status").stdout, project.headrace("why", "hello").stdout
    [finding] = project.json("status")["pipelines"][0]["queries"][0]["findings"]
    explained = project.json("why", "hello")["pipeline"]["queries"][0]["findings"]

    assert "problem: kept: The watermark stays." in shown
    for words in (
        "hello is degraded",
        "problem: kept: The watermark stays.",
        "cause: An input is idle.",
        "where: pipelines/hello.py:6",
        "what to do: Let it speak.",
        "Headrace: Does not restart it",
    ):
        assert words in why
    assert (finding["slug"], finding["severity"]) == ("watermark-held", "problem")
    assert explained == [finding]


def test_a_degraded_pipeline_counts_as_running_and_can_be_caught_up(project: Project) -> None:
    project.deployed()
    kept(project, degraded())

    for until in ("running", "caught-up"):
        assert project.headrace("wait", "hello", "--until", until, "--timeout", "5s").exit_code == 0
