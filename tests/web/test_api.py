"""The API of a project: with history, without, and with broken parts."""

from __future__ import annotations

import io
import json
import time
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.stage import eventually
from headrace.errors import ConfigError
from headrace.json_file import write_json
from headrace.model.events import Event, EventKind
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.progress import from_spark
from headrace.model.requests import Reply, Request
from headrace.project import status
from headrace.state import requests
from headrace.store import db, progress
from headrace.web import json_responses, openapi, overview_feed
from headrace.web import overview as web_overview
from headrace.web.routes import API, ROUTES, Endpoint
from web.conftest import HTTP_PAGE, Visitor, documented_fields, undocumented, with_history

pytestmark = pytest.mark.thorough


def test_the_overview_has_restarts_alerts_and_the_last_failure(inside: Visitor) -> None:
    with_history(inside.project)

    (one,) = fresh_overview(inside)["pipelines"]

    assert (one["name"], one["restarts_today"], one["alerts"]) == ("hello", 1, 1)
    assert one["failure"]["what"] == "Division by zero."
    assert one["failure"]["fix"] == "guard n"
    assert one["rates"]
    assert all(rate > 0 for _, rate, _, _ in one["rates"])


def test_an_open_critical_alert_is_in_the_headline(inside: Visitor) -> None:
    with_history(inside.project)

    found = fresh_overview(inside)["headline"]

    assert found["level"] == "bad"
    assert "1 open alert (critical)" in found["text"]
    assert "1 restart in the last 24 h." in found["text"]
    assert "Healthy" not in found["text"]


def test_rates_of_a_pipeline_count_a_source_once(inside: Visitor) -> None:
    run = with_history(inside.project)
    nodes = (Node("lines", "source", "hello.py:1"),)
    queries = tuple(
        Query(name, "hello.py:2", ("lines",), {"kind": "console"}, "append", {}, None, "none", "")
        for name in ("kept", "other")
    )
    defined = Definition("hello", "dev", "aaaa1111", "pipelines/hello.py", nodes, queries)
    path = inside.project.places.definition("aaaa1111", "dev", "hello")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, defined.to_json())
    before = fresh_overview(inside)["pipelines"][0]["rates"]
    with closing(db.open_history(inside.project.places.history)) as conn:
        for one in progress.newest(conn, "hello", "kept"):
            progress.add(conn, "hello", run, "other", one.at, from_spark(one.raw))

    (row,) = fresh_overview(inside)["pipelines"]

    whole = [rate for _, rate, _, is_complete in row["rates"] if is_complete]
    assert whole == [rate for _, rate, _, is_complete in before if is_complete]
    assert max(whole) == pytest.approx(100 / 3, rel=0.1)


def test_the_current_step_is_marked_as_incomplete(inside: Visitor) -> None:
    now = time.time()
    run = with_history(inside.project, now - 600)  # longer ago than a step of 360 s
    with closing(db.open_history(inside.project.places.history)) as conn:
        progress.add(conn, "hello", run, "kept", now, from_spark({"batchId": 60}))

    lines = inside.get("/api/pipelines/hello/history?range=24h")["queries"]["kept"]

    assert lines["is_complete"][0] is True
    assert set(lines["is_complete"][:-1]) <= {True}
    assert lines["is_complete"][-1] is (lines["at"][-1] + 360 <= time.time())


def fresh_overview(inside: Visitor) -> Any:
    """Built after the test has written its data."""
    since = time.time()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        seen = inside.get("/api/overview")
        if seen["pipelines"] and seen["at"] >= since:
            return seen
        time.sleep(0.1)
    raise AssertionError("the overview never showed it")


def test_without_an_open_page_nothing_is_built_and_the_next_one_is_up_to_date(
    inside: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[float] = []
    overview = web_overview.OverviewBuilder.overview

    def counted(self: web_overview.OverviewBuilder) -> dict[str, Any]:
        made.append(time.monotonic())
        return overview(self)

    monkeypatch.setattr(web_overview.OverviewBuilder, "overview", counted)
    monkeypatch.setattr(overview_feed, "POLL_S", 0.01)
    monkeypatch.setattr(overview_feed, "REFRESH_S", 0.02)
    inside.get("/api/overview")
    eventually(lambda: len(made) > 3, 20)  # kept up to date without another request

    monkeypatch.setattr(overview_feed, "UNUSED_S", 0.0)
    eventually(lambda: time.monotonic() - made[-1] > 1, 20)
    before = len(made)
    with_history(inside.project)
    time.sleep(0.5)

    assert len(made) == before
    assert [one["name"] for one in inside.get("/api/overview")["pipelines"]] == ["hello"]


def test_an_empty_project_shows_the_first_steps(inside: Visitor) -> None:
    seen = inside.get("/api/overview")

    assert seen["pipelines"] == []
    assert seen["notice"] is None
    assert any("headrace" in hint for hint in seen["hints"])
    assert inside.get("/api/alerts") == {"alerts": [], "is_cut": False}
    assert inside.get("/api/silences") == {"silences": []}
    assert inside.get("/api/channels") == {"channels": []}
    assert inside.get("/api/audit") == {"audit": []}
    assert inside.get("/api/live") == {"tables": []}
    assert inside.get("/api/checkpoints") == {"checkpoints": []}


@pytest.mark.parametrize("error", [ConfigError("No good.", slug="bad-setting"), RuntimeError("?")])
def test_an_overview_that_cannot_be_built_is_an_error_not_an_old_one(
    inside: Visitor, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_history(inside.project)
    whole = fresh_overview(inside)

    def fail(*given: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(status, "overview", fail)

    answer = eventually(lambda: (got := inside.get("/api/overview")).get("error") and got, 20)
    assert set(answer) == {*whole, "error"}
    assert answer["pipelines"] == []
    assert answer["error"]["what"]


def test_nan_and_infinity_are_null_in_json() -> None:
    body = {"points": [[1, float("nan")], [2, float("inf")]], "at": Path("x")}

    answer = json.loads(json_responses.encode(body), parse_constant=lambda text: pytest.fail(text))

    assert answer == {"points": [[1, None], [2, None]], "at": "x"}


def test_cached_static_files_are_not_sent_again(inside: Visitor) -> None:
    first = inside.http.get("/static/app.css")

    again = inside.http.get("/static/app.css", headers={"if-none-match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    other = inside.http.get("/static/app.css", headers={"if-none-match": '"other"'})
    assert other.content == first.content


def test_a_person_gets_a_page_and_a_program_json(inside: Visitor) -> None:
    with_history(inside.project)
    person = {"accept": "text/html,application/xhtml+xml"}

    shown = inside.http.get("/pipelines/helo", headers=person)

    assert shown.status_code == 404
    assert shown.headers["content-type"].startswith("text/html")
    assert "Did you mean" in shown.text
    assert inside.http.get("/nothing", headers=person).headers["content-type"].startswith("text/h")
    assert inside.http.get("/api/pipelines/helo", headers=person).json()["error"]


def test_batches_rarer_than_steps_have_their_true_rate(inside: Visitor) -> None:
    """1,000 rows every ten seconds are 100 rows/s, whatever the width of a step."""
    now = time.time()
    with_batches(inside, [(now - 10 * n, 1000) for n in range(40, 0, -1)])

    lines = inside.get("/api/pipelines/hello/history?range=15m")["queries"]["kept"]

    rates = lines["input_rate"][1:-1]
    assert sum(rates) / len(rates) == pytest.approx(100, rel=0.1)
    assert max(rates) < 140, "a step of 3.75 s alone would make it 267"


def test_an_outage_is_a_hole_in_every_line(inside: Visitor) -> None:
    now = time.time()
    before = [(now - 800 + 3 * n, 30) for n in range(20)]
    after = [(now - 100 + 3 * n, 30) for n in range(20)]
    with_batches(inside, before + after)

    lines = inside.get("/api/pipelines/hello/history?range=15m")["queries"]["kept"]

    holes = [n for n, rows in enumerate(lines["rows_in"]) if rows is None]
    assert len(holes) == 1
    assert all(lines[name][holes[0]] is None for name in lines if name != "at")
    assert before[-1][0] - 5 < lines["at"][holes[0]] < after[0][0]
    assert {len(values) for values in lines.values()} == {len(lines["at"])}


def with_batches(inside: Visitor, batches: list[tuple[float, int]], query: str = "kept") -> None:
    run = with_history(inside.project, batches[0][0] - 1000)
    with closing(db.open_history(inside.project.places.history)) as conn:
        conn.execute("DELETE FROM progress")
        for number, (at, rows) in enumerate(batches):
            took = {"triggerExecution": 500}
            body = {"batchId": number, "numInputRows": rows, "durationMs": took}
            progress.add(conn, "hello", run, query, at, from_spark(body))


def test_the_end_of_a_long_events_file_is_shown(inside: Visitor) -> None:
    run = with_history(inside.project)
    path = inside.project.places.events(run)
    line = Event(1000.0, EventKind.DEFINED, data={"queries": ["x" * 1000]}).to_line() + "\n"
    last = Event(2000.0, EventKind.RUN_STARTED, data={"pid": 1}).to_line() + "\n"
    path.write_text(line * 3000 + last)

    answer = inside.get(f"/api/runs/{run}/events")

    assert answer["events"][-1]["at"] == 2000.0
    assert answer["position"] == path.stat().st_size
    assert inside.get(f"/api/runs/{run}/events?after={answer['position']}")["events"] == []


def test_a_pipeline_with_its_failure_and_its_verdict(inside: Visitor) -> None:
    with_history(inside.project)

    seen = inside.get("/api/pipelines/hello")

    assert seen["failure"]["error"]["where"] == "pipelines/hello.py:6"
    assert [run["ending"] for run in seen["runs"]] == [None, "failed"]
    assert seen["verdicts"]["kept"]["slug"] == "not-slow"
    assert seen["verdicts"]["kept"]["keeps_up"] is True
    assert seen["alerts"][0]["title"] == "Load is high"


def test_an_unknown_pipeline_gets_a_suggestion(inside: Visitor) -> None:
    with_history(inside.project)

    for path in ("/api/pipelines/helo", "/api/pipelines/helo/history", "/pipelines/helo"):
        answer = inside.get(path, 404)
        assert 'Did you mean "hello"?' in answer["error"]["why"]


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a%25b", "a%00b", "a;b", "<script>", "ä ö"])
def test_odd_names_are_names_and_nothing_else(inside: Visitor, name: str) -> None:
    with_history(inside.project)

    assert inside.get(f"/api/pipelines/{name}", 404)["error"]["slug"] == "unknown-name"
    assert inside.get(f"/api/live/{name}", 404)["error"]["slug"] == "unknown-name"


def test_history_has_every_measure_on_one_axis(inside: Visitor) -> None:
    with_history(inside.project)

    seen = inside.get("/api/pipelines/hello/history?range=15m")

    lines = seen["queries"]["kept"]
    assert {len(values) for values in lines.values()} == {len(lines["at"])}
    assert sum(lines["rows_in"]) == 6000
    assert sum(lines["batches"]) == 60
    assert set(lines["addBatch"]) == {150.0}
    assert set(lines["walCommit"]) == {20.0}
    assert {"walCommit", "addBatch"} < set(seen["phases"]) < set(lines)
    assert any(mark["kind"] == "run_ended" for mark in seen["marks"])
    assert seen["until"] - seen["since"] == 900


@pytest.mark.parametrize("wanted", ["1h", "6h", "24h", "7d", "30d"])
def test_longer_ranges_use_rollups_with_the_same_totals(inside: Visitor, wanted: str) -> None:
    with_history(inside.project)

    lines = inside.get(f"/api/pipelines/hello/history?range={wanted}")["queries"]["kept"]

    assert sum(lines["rows_in"]) == 6000
    assert len(lines["at"]) <= 241
    assert {round(v) for v in lines["addBatch"]} == {150}


def test_an_invalid_range_or_number_is_refused(inside: Visitor) -> None:
    with_history(inside.project)

    answer = inside.get("/api/pipelines/hello/history?range=a%20year", 400)
    assert "15m" in answer["error"]["why"]
    inside.get("/api/pipelines/hello/history?until=soon", 400)
    inside.get("/api/pipelines/hello/history?until=nan", 400)


def test_a_run_explained(inside: Visitor) -> None:
    with_history(inside.project)

    seen = inside.get("/api/runs/hello-20260101T000001-ab01")

    assert seen["failure"]["what"] == "Division by zero."
    assert seen["failure"]["where"] == "pipelines/hello.py:6"
    assert seen["is_live"] is False
    assert "failed" in seen["headline"]


def test_a_runs_log_from_its_end_by_search_and_as_it_grows(inside: Visitor) -> None:
    run = with_history(inside.project)
    path = inside.project.places.log(run)
    path.write_text("".join(f"line {n}\n" for n in range(2000)))

    last = inside.get(f"/api/runs/{run}/log")
    found = inside.get(f"/api/runs/{run}/log?search=LINE%20199")
    with path.open("a") as file:
        file.write("more\nhalf")
    grown = inside.get(f"/api/runs/{run}/log?after={last['position']}")

    assert last["lines"][-1] == "line 1999"
    assert len(last["lines"]) == 500
    assert found["lines"] == ["line 199", *(f"line 199{n}" for n in range(10))]
    assert grown["lines"] == ["more"]
    with path.open("a") as file:
        file.write(" whole\n")
    again = inside.get(f"/api/runs/{run}/log?after={grown['position']}")
    assert again["lines"] == ["half whole"]


def test_a_runs_events_in_words(inside: Visitor) -> None:
    run = with_history(inside.project)

    seen = inside.get(f"/api/runs/{run}/events")

    assert any("run started, pid 4711" in one["text"] for one in seen["events"])
    again = inside.get(f"/api/runs/{run}/events?after={seen['position']}")
    assert again["events"] == []


def test_secrets_are_in_nothing_that_is_shown(
    inside: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "canary-7f3a9c")
    toml = inside.project.folder / "headrace.toml"
    toml.write_text(toml.read_text() + '[sources.s]\nkind = "kafka"\ntoken = "${env:SHOP_KEY}"\n')
    run = with_history(inside.project)
    log = "it is canary-7f3a9c\npassword=hunter2secret\njdbc://u:pw12345678@db/x\n"
    inside.project.places.log(run).write_text(log)
    inside.project.places.events(run).write_text("")

    from headrace import config
    from headrace.web import runs
    from headrace.web.visit import Site, Visit

    visit = Visit(Site(config.load(inside.project.folder)), path={"run": run})
    shown = json.dumps([runs.log(visit), runs.run(visit), runs.events(visit)])
    packed = zipfile.ZipFile(io.BytesIO(runs.bundle(visit).body))
    shown += "".join(packed.read(name).decode() for name in packed.namelist())

    assert "driver.log" in "".join(packed.namelist())
    for secret in ("canary-7f3a9c", "hunter2secret", "pw12345678"):
        assert secret not in shown


def test_a_broken_store_is_an_error_and_the_page_stays_up(inside: Visitor) -> None:
    with_history(inside.project)
    fresh_overview(inside)
    for log in inside.project.places.state.glob("history.db-*"):  # all of it may be in there yet
        log.unlink(missing_ok=True)
    inside.project.places.history.write_bytes(b"this is no database" * 500)

    answer = inside.get("/api/pipelines/hello/history", 503)

    assert set(answer["error"]) == {"slug", "what", "why", "where", "fix"}
    seen = inside.get("/api/pipelines/hello")
    assert seen["pipeline"]["name"] == "hello"
    assert seen["runs"] == []
    assert inside.get("/api/runs/hello-20260101T000001-ab01")["failure"]
    assert inside.http.get("/").status_code == 200


def test_without_a_store_runs_are_read_from_their_files(inside: Visitor) -> None:
    with_history(inside.project)
    for path in inside.project.places.state.glob("history.db*"):
        path.unlink()

    assert len(inside.get("/api/pipelines/hello/runs")["runs"]) == 2
    assert inside.get("/api/audit") == {"audit": []}


# ---- actions


def test_an_action_is_a_request_with_the_name_of_the_user(inside: Visitor) -> None:
    with_history(inside.project)
    inside.project.supervised()

    answer = inside.post("/api/pipelines/hello/stop", {})

    assert answer["is_answered"] is False
    (path,) = inside.project.places.requests.glob("*.json")
    left = Request.from_json(json.loads(path.read_text()))
    assert (left.what, left.pipeline, left.by) == ("stop", "hello", "tester (page)")
    requests.answer(inside.project.places, Reply(left.id, ok=True, text="it stops"))
    assert inside.get(f"/api/requests/{answer['request']}")["text"] == "it stops"


def test_without_a_supervisor_actions_are_refused(inside: Visitor) -> None:
    with_history(inside.project)

    answer = inside.post("/api/pipelines/hello/start", {}, 409)

    assert answer["error"]["fix"] == "headrace up"


def test_a_refused_action_has_the_error_of_the_supervisor(inside: Visitor) -> None:
    with_history(inside.project)
    inside.project.supervised()

    assert inside.post("/api/pipelines/helo/start", {}, 404)["error"]["slug"] == "unknown-name"
    answer = inside.post("/api/pipelines/hello/rollback", {}, 409)
    assert answer["error"]["slug"] == "no-earlier-version"
    assert not list(inside.project.places.requests.glob("*"))


@pytest.mark.parametrize("id_", ["..%2fkeys", "%2e%2e", "a%00", "x" * 200, "nothing-here"])
def test_replies_to_unknown_requests(inside: Visitor, id_: str) -> None:
    done = inside.http.get(f"/api/requests/{id_}")

    assert done.status_code == 404 or done.json() == {
        "request": id_, "is_answered": False, "text": None
    }  # fmt: skip


def test_actions_are_rate_limited(inside: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.actions.REPLY_S", 0.0)
    with_history(inside.project)
    inside.project.supervised()

    codes = [inside.http.post("/api/pipelines/hello/start", json={}).status_code for _ in range(32)]

    assert codes == [200] * 30 + [429] * 2


# ---- the API description


def test_the_api_describes_all_its_endpoints(inside: Visitor) -> None:
    answer = inside.get("/api/openapi.json")

    described = {
        (path, method.upper()) for path, all_ in answer["paths"].items() for method in all_
    }
    assert described == {(endpoint.path.replace(":path", ""), endpoint.method) for endpoint in API}
    assert answer["components"]["schemas"]["Error"]


def test_the_api_describes_the_content_type_of_each_endpoint(inside: Visitor) -> None:
    run = with_history(inside.project)
    answer = inside.get("/api/openapi.json")

    for path, kind in (
        (f"/api/runs/{run}/bundle", "application/zip"),
        (f"/api/runs/{run}/log", "application/json"),
        ("/api/audit", "application/json"),
    ):
        described = answer["paths"][path.replace(run, "{run}")]["get"]["responses"]["200"]
        assert list(described["content"]) == [kind]
        assert inside.http.get(path).headers["content-type"] == kind
    live = answer["paths"]["/api/live/{table}"]["get"]["responses"]["200"]
    assert set(live["content"]) == {
        "application/json", "text/csv", "application/vnd.apache.parquet"
    }  # fmt: skip
    stream = answer["paths"]["/api/stream"]["get"]["responses"]["200"]
    assert list(stream["content"]) == ["text/event-stream"]
    assert answer["components"]["securitySchemes"]["session"]["name"] in inside.http.cookies


def test_every_endpoint_of_the_api_is_in_the_docs() -> None:
    page = HTTP_PAGE.read_text()

    for endpoint in ROUTES:
        assert f"`{documented_name(endpoint)}`" in page


def documented_name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path.replace(':path', '')}"


def test_every_field_of_a_response_is_in_the_docs(inside: Visitor) -> None:
    """Those of SQL and live tables: test_sql_over_http.py; of one alert, silences and channels:
    test_alerts_over_http.py."""
    run = with_history(inside.project)
    fields = {row.endpoint for row in documented_fields()}
    elsewhere = ("/api/live", "/api/sql", "/api/quar", "/api/alerts/", "/api/sil", "/api/chan")
    wrong = []
    for endpoint in API:
        name, path = documented_name(endpoint), endpoint.path
        if openapi.JSON not in endpoint.kinds or path == "/api/openapi.json":
            continue
        assert name in fields
        if name.startswith("GET") and not path.startswith(elsewhere):
            url = path.format(pipeline="hello", run=run, request="x")
            wrong += [f"{name} {field}" for field in undocumented(name, inside.get(url))]

    assert wrong == []


def test_a_field_that_the_docs_lack_is_caught() -> None:
    answer = {"runs": [{"run": "x", "new": 1}], "more": 1}

    wrong = undocumented("GET /api/pipelines/{pipeline}/runs", answer)

    assert {".more", "runs.new", "runs.code"} <= set(wrong)


def test_errors_have_one_shape(inside: Visitor) -> None:
    with_history(inside.project)
    for path, code in (
        ("/api/pipelines/x", 404), ("/api/runs/x", 404), ("/api/live/x", 404),
        ("/api/nothing", 404),
        ("/api/pipelines/hello/history?range=x", 400), ("/api/live/x/y", 404),
    ):  # fmt: skip
        answer = inside.get(path, code)
        assert set(answer) == {"error"}
        assert set(answer["error"]) == {"slug", "what", "why", "where", "fix"}
        assert answer["error"]["what"]
    assert inside.http.post("/api/overview", json={}).status_code == 405
    assert inside.post("/api/sql", {"sql": ""}, 400)["error"]["slug"] == "no-sql"
    assert inside.post("/api/sql", {"sql": "SELECT 1", "rows": 10**9}, 400)
    assert inside.post("/api/sql", ["a"], 400)["error"]["slug"] == "bad-value"


def test_an_alert_and_a_run_have_one_shape_everywhere(inside: Visitor) -> None:
    with_history(inside.project)

    pipeline = inside.get("/api/pipelines/hello")
    alerts = [
        inside.get("/api/overview")["alerts"][0],
        inside.get("/api/alerts")["alerts"][0],
        pipeline["alerts"][0],
        json.loads(inside.project.headrace("alerts", "list", "--json").stdout)["alerts"][0],
    ]
    stored = inside.get("/api/pipelines/hello/runs")["runs"]
    inside.project.places.history.unlink()
    from_files = inside.get("/api/pipelines/hello/runs")["runs"]

    assert all(alert == alerts[0] for alert in alerts)
    assert alerts[0]["count"] == 1
    assert pipeline["runs"] == stored
    assert [run.keys() for run in from_files] == [run.keys() for run in stored]
    assert [run["ending"] for run in from_files] == [run["ending"] for run in stored]
