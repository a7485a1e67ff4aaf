"""What the API tells of a project: with history, without, and while parts of it are broken."""

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
from headrace.model.events import Event, Kind
from headrace.model.requests import Answer, Request
from headrace.project import reading
from headrace.state import requests
from headrace.store import db, progress
from headrace.web import board, jsontext, watch
from headrace.web.doors import API, DOORS
from web.conftest import Visitor, with_history

pytestmark = pytest.mark.thorough


def test_the_overview_answers_the_first_questions(inside: Visitor) -> None:
    with_history(inside.project)

    (one,) = fresh_overview(inside)["pipelines"]

    assert (one["name"], one["restarts_today"], one["alerts"]) == ("hello", 1, 1)
    assert one["failure"]["what"] == "Division by zero."
    assert one["failure"]["fix"] == "guard n"
    assert one["rates"]
    assert all(rate > 0 for _, rate, _ in one["rates"])


def fresh_overview(inside: Visitor) -> Any:
    """Made after what the test has written."""
    since = time.time()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        seen = inside.get("/api/overview")
        if seen["pipelines"] and seen["at"] >= since:
            return seen
        time.sleep(0.1)
    raise AssertionError("the overview never showed it")


def test_a_page_that_nobody_looks_at_makes_nothing_and_is_up_to_date_for_the_next_visitor(
    inside: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[float] = []
    overview = board.Board.overview

    def counted(self: board.Board) -> dict[str, Any]:
        made.append(time.monotonic())
        return overview(self)

    monkeypatch.setattr(board.Board, "overview", counted)
    monkeypatch.setattr(watch, "LOOK_S", 0.01)
    monkeypatch.setattr(watch, "ANYWAY_S", 0.02)
    inside.get("/api/overview")
    eventually(lambda: len(made) > 3, 20)  # kept ready without being asked again

    monkeypatch.setattr(watch, "ALONE_S", 0.0)
    eventually(lambda: time.monotonic() - made[-1] > 1, 20)
    before = len(made)
    with_history(inside.project)
    time.sleep(0.5)

    assert len(made) == before
    assert [one["name"] for one in inside.get("/api/overview")["pipelines"]] == ["hello"]


def test_an_empty_project_says_how_to_begin(inside: Visitor) -> None:
    seen = inside.get("/api/overview")

    assert seen["pipelines"] == []
    assert seen["notice"] is None
    assert any("headrace" in hint for hint in seen["hints"])
    assert inside.get("/api/alerts") == {"alerts": []}
    assert inside.get("/api/audit") == {"audit": []}
    assert inside.get("/api/live") == {"tables": []}
    assert inside.get("/api/checkpoints") == {"checkpoints": []}


@pytest.mark.parametrize("error", [ConfigError("No good.", slug="bad-setting"), RuntimeError("?")])
def test_an_overview_that_cannot_be_made_says_so_in_place_of_an_old_one(
    inside: Visitor, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_history(inside.project)
    whole = fresh_overview(inside)

    def fail(*given: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(reading, "overview", fail)

    told = eventually(lambda: (got := inside.get("/api/overview")).get("error") and got, 20)
    assert set(told) == {*whole, "error"}
    assert told["pipelines"] == []
    assert told["error"]["what"]


def test_what_is_no_number_in_json_is_null() -> None:
    body = {"points": [[1, float("nan")], [2, float("inf")]], "at": Path("x")}

    told = json.loads(jsontext.encoded(body), parse_constant=lambda text: pytest.fail(text))

    assert told == {"points": [[1, None], [2, None]], "at": "x"}


def test_what_a_browser_has_is_not_sent_again(inside: Visitor) -> None:
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
    """1,000 rows every ten seconds are 100 a second, whatever the width of a step."""
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
            progress.add(conn, "hello", run, query, at, body)


def test_a_long_events_file_is_shown_from_its_end(inside: Visitor) -> None:
    run = with_history(inside.project)
    path = inside.project.places.events(run)
    line = Event(1000.0, Kind.DEFINED, data={"queries": ["x" * 1000]}).to_line() + "\n"
    last = Event(2000.0, Kind.RUN_STARTED, data={"pid": 1}).to_line() + "\n"
    path.write_text(line * 3000 + last)

    told = inside.get(f"/api/runs/{run}/events")

    assert told["events"][-1]["at"] == 2000.0
    assert told["position"] == path.stat().st_size
    assert inside.get(f"/api/runs/{run}/events?after={told['position']}")["events"] == []


def test_a_pipeline_with_its_failure_and_its_verdict(inside: Visitor) -> None:
    with_history(inside.project)

    seen = inside.get("/api/pipelines/hello")

    assert seen["failure"]["error"]["where"] == "pipelines/hello.py:6"
    assert [run["ending"] for run in seen["runs"]] == [None, "failed"]
    assert seen["verdicts"]["kept"]["slug"] == "not-slow"
    assert seen["alerts"][0]["title"] == "Load is high"


def test_an_unknown_pipeline_is_told_with_the_near_miss(inside: Visitor) -> None:
    with_history(inside.project)

    for path in ("/api/pipelines/helo", "/api/pipelines/helo/history", "/pipelines/helo"):
        told = inside.get(path, 404)
        assert 'Did you mean "hello"?' in told["error"]["why"]


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
    assert any(mark["kind"] == "run_ended" for mark in seen["marks"])
    assert seen["until"] - seen["since"] == 900


@pytest.mark.parametrize("wanted", ["1h", "6h", "24h", "7d", "30d"])
def test_longer_ranges_are_rolled_up_and_say_the_same(inside: Visitor, wanted: str) -> None:
    with_history(inside.project)

    lines = inside.get(f"/api/pipelines/hello/history?range={wanted}")["queries"]["kept"]

    assert sum(lines["rows_in"]) == 6000
    assert len(lines["at"]) <= 241
    assert {round(v) for v in lines["addBatch"]} == {150}


def test_what_is_no_range_or_number_is_told(inside: Visitor) -> None:
    with_history(inside.project)

    told = inside.get("/api/pipelines/hello/history?range=a%20year", 400)
    assert "15m" in told["error"]["why"]
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
    from headrace.web.site import Site, Visit

    visit = Visit(Site(config.load(inside.project.folder)), path={"run": run})
    shown = json.dumps([runs.log(visit), runs.run(visit), runs.events(visit)])
    packed = zipfile.ZipFile(io.BytesIO(runs.bundle(visit).body))
    shown += "".join(packed.read(name).decode() for name in packed.namelist())

    assert "driver.log" in "".join(packed.namelist())
    for secret in ("canary-7f3a9c", "hunter2secret", "pw12345678"):
        assert secret not in shown


def test_a_broken_store_is_told_and_the_page_stays_up(inside: Visitor) -> None:
    with_history(inside.project)
    fresh_overview(inside)
    for log in inside.project.places.state.glob("history.db-*"):  # all of it may be in there yet
        log.unlink(missing_ok=True)
    inside.project.places.history.write_bytes(b"this is no database" * 500)

    told = inside.get("/api/pipelines/hello/history", 503)

    assert set(told["error"]) == {"slug", "what", "why", "where", "fix"}
    seen = inside.get("/api/pipelines/hello")
    assert seen["pipeline"]["name"] == "hello"
    assert seen["runs"] == []
    assert inside.get("/api/runs/hello-20260101T000001-ab01")["failure"]
    assert inside.http.get("/").status_code == 200


def test_without_a_store_the_runs_files_are_enough(inside: Visitor) -> None:
    with_history(inside.project)
    for path in inside.project.places.state.glob("history.db*"):
        path.unlink()

    assert len(inside.get("/api/pipelines/hello/runs")["runs"]) == 2
    assert inside.get("/api/audit") == {"audit": []}


# ---- acting


def test_an_action_is_a_request_with_the_name_of_who_asked(inside: Visitor) -> None:
    with_history(inside.project)
    inside.project.supervised()

    told = inside.post("/api/pipelines/hello/stop", {})

    assert told["is_answered"] is False
    (path,) = inside.project.places.requests.glob("*.json")
    left = Request.from_json(json.loads(path.read_text()))
    assert (left.what, left.pipeline, left.by) == ("stop", "hello", "tester (page)")
    requests.answer(inside.project.places, Answer(left.id, ok=True, text="it stops"))
    assert inside.get(f"/api/requests/{told['request']}")["text"] == "it stops"


def test_without_a_supervisor_nothing_can_be_asked(inside: Visitor) -> None:
    with_history(inside.project)

    told = inside.post("/api/pipelines/hello/start", {}, 409)

    assert told["error"]["fix"] == "headrace up"


def test_a_refusal_is_told_as_it_is(inside: Visitor) -> None:
    with_history(inside.project)
    inside.project.supervised()

    assert inside.post("/api/pipelines/helo/start", {}, 404)["error"]["slug"] == "unknown-name"
    told = inside.post("/api/pipelines/hello/rollback", {}, 409)
    assert told["error"]["slug"] == "no-earlier-version"
    assert not list(inside.project.places.requests.glob("*"))


@pytest.mark.parametrize("id_", ["..%2fkeys", "%2e%2e", "a%00", "x" * 200, "nothing-here"])
def test_answers_of_strange_requests(inside: Visitor, id_: str) -> None:
    done = inside.http.get(f"/api/requests/{id_}")

    assert done.status_code == 404 or done.json() == {
        "request": id_, "is_answered": False, "text": None
    }  # fmt: skip


def test_actions_have_a_pace(inside: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.acting.ANSWER_S", 0.0)
    with_history(inside.project)
    inside.project.supervised()

    codes = [inside.http.post("/api/pipelines/hello/start", json={}).status_code for _ in range(32)]

    assert codes == [200] * 30 + [429] * 2


# ---- the description


def test_the_api_describes_every_door_of_it(inside: Visitor) -> None:
    told = inside.get("/api/openapi.json")

    described = {(path, method.upper()) for path, all_ in told["paths"].items() for method in all_}
    assert described == {(door.path.replace(":path", ""), door.method) for door in API}
    assert told["components"]["schemas"]["Error"]


def test_the_api_describes_what_kind_of_content_each_door_gives(inside: Visitor) -> None:
    run = with_history(inside.project)
    told = inside.get("/api/openapi.json")

    for path, kind in (
        (f"/api/runs/{run}/bundle", "application/zip"),
        (f"/api/runs/{run}/log", "application/json"),
        ("/api/audit", "application/json"),
    ):
        described = told["paths"][path.replace(run, "{run}")]["get"]["responses"]["200"]
        assert list(described["content"]) == [kind]
        assert inside.http.get(path).headers["content-type"] == kind
    live = told["paths"]["/api/live/{table}"]["get"]["responses"]["200"]
    assert set(live["content"]) == {
        "application/json", "text/csv", "application/vnd.apache.parquet"
    }  # fmt: skip
    stream = told["paths"]["/api/stream"]["get"]["responses"]["200"]
    assert list(stream["content"]) == ["text/event-stream"]
    assert told["components"]["securitySchemes"]["session"]["name"] in inside.http.cookies


def test_every_door_of_the_api_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()

    for door in DOORS:
        assert f"`{door.method} {door.path.replace(':path', '')}`" in page, door.path


def test_errors_have_one_shape(inside: Visitor) -> None:
    with_history(inside.project)
    for path, code in (
        ("/api/pipelines/x", 404), ("/api/runs/x", 404), ("/api/live/x", 404),
        ("/api/nothing", 404),
        ("/api/pipelines/hello/history?range=x", 400), ("/api/live/x/y", 404),
    ):  # fmt: skip
        told = inside.get(path, code)
        assert set(told) == {"error"}
        assert set(told["error"]) == {"slug", "what", "why", "where", "fix"}
        assert told["error"]["what"]
    assert inside.http.post("/api/overview", json={}).status_code == 405
    assert inside.post("/api/sql", {"sql": ""}, 400)["error"]["slug"] == "no-sql"
    assert inside.post("/api/sql", {"sql": "SELECT 1", "rows": 10**9}, 400)
    assert inside.post("/api/sql", ["a"], 400)["error"]["slug"] == "bad-value"
