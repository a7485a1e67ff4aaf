"""Rules in the supervisor: real loop, store and files, with fake drivers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.alerts.rules import outputs
from headrace.model.pipeline import Definition, Node, Query
from headrace.model.requests import Action
from headrace.model.rules import SqlResult
from headrace.model.runs import Desired
from headrace.state import desired, sql_rules
from headrace.store import alerts, db
from headrace.store.alerts import StoredAlert
from headrace.supervisor import host_facts
from headrace.supervisor.loop import Clock, Supervisor
from supervisor.conftest import FAKE_DRIVER, LIMITS, Project, until

WANTED = Desired("orders", "running", "v1", "dev", "orders.py")


class Watched:
    """A supervisor in this process, with alerts of its project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.ahead, self.is_closed = 0.0, False
        clock = Clock(steady=lambda: time.time() + self.ahead, wall=time.time)
        self.supervisor = Supervisor(project.path, clock=clock, driver_command=FAKE_DRIVER)

    def tick(self) -> None:
        self.supervisor.tick(self.supervisor.clock.steady())

    def until(self, condition: Callable[[], object], what: str) -> None:
        def look() -> object:
            self.tick()
            return condition()

        until(look, what=what)

    def alerts(self) -> list[StoredAlert]:
        with closing(db.open_alerts(self.project.places.alerts)) as conn:
            return sorted(alerts.list_alerts(conn, "all"), key=lambda alert: alert.id)

    def open(self) -> list[str]:
        return [alert.key for alert in self.alerts() if alert.resolved_at is None]

    def resolved(self) -> list[str]:
        return [alert.key for alert in self.alerts() if alert.resolved_at is not None]

    def end(self) -> None:
        self.supervisor.go_down()
        self.until(lambda: self.supervisor.is_done, "its end")
        self.close()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.supervisor.close()


@pytest.fixture
def begin(project: Project) -> Iterator[Callable[[], Watched]]:
    started: list[Watched] = []

    def make() -> Watched:
        started.append(Watched(project))
        return started[-1]

    yield make
    for one in started:
        one.close()


def settings(project: Project, text: str) -> None:
    (project.path / "headrace.toml").write_text(f"{LIMITS}\n{text}")


@pytest.mark.e2e
def test_a_failure_is_in_the_store_right_after_the_driver_exits_with_what_to_do(
    project: Project, begin: Callable[[], Watched]
) -> None:
    project.behave(orders={"mode": "refuse"})
    desired.write(project.places, WANTED)
    mine = begin()

    mine.until(mine.open, "an alert")

    (alert,) = mine.alerts()
    assert (alert.key, alert.severity) == ("needs-attention:orders", "critical")
    assert alert.title.startswith("orders needs attention: there is no Java (since 20")
    assert alert.data["Headrace"] == "Does not restart the pipeline."
    assert "headrace start orders" in alert.data["What to do"]
    assert alert.data["More"] == "headrace why orders"
    ended = project.outcome(project.runs("orders")[-1].run)
    assert ended is not None
    assert alert.opened_at - ended.at < 10, "generous: the machine may be busy"


@pytest.mark.e2e
def test_an_alert_outlives_its_supervisor_and_is_neither_opened_again_nor_left_open(
    project: Project, begin: Callable[[], Watched]
) -> None:
    project.behave(orders={"mode": "refuse"})
    desired.write(project.places, WANTED)
    first = begin()
    first.until(first.open, "an alert")
    first.end()
    assert first.open() == ["needs-attention:orders"], "going down resolves nothing"

    second = begin()
    for _ in range(5):
        second.tick()
    project.behave()
    reopened = [alert.count for alert in second.alerts()]
    wanted = desired.read(project.places, "orders")
    assert wanted is not None
    second.end()
    desired.write(project.places, replace(wanted, generation=wanted.generation + 1))
    third = begin()
    third.until(lambda: not third.open(), "the end of the alert")

    assert reopened == [1]
    assert third.resolved() == ["needs-attention:orders"]
    third.end()


@pytest.mark.e2e
def test_a_rule_of_a_user_opens_and_ends_when_it_is_removed(
    project: Project, begin: Callable[[], Watched]
) -> None:
    settings(project, '[rules.busy]\nwhen = "rows_in > 3"\nseverity = "error"\n')
    desired.write(project.places, WANTED)
    mine = begin()
    mine.until(mine.open, "an alert")
    opened = mine.open()

    settings(project, "")
    mine.ahead += 10  # the next look at the rules
    mine.until(lambda: not mine.open(), "the end of the alert")

    (alert,) = mine.alerts()
    assert opened == ["busy:orders:q"]
    assert (alert.severity, alert.query) == ("error", "q")
    assert alert.title.startswith("q: rows_in is ")
    mine.end()


@pytest.mark.e2e
def test_each_failure_is_an_alert_if_the_settings_ask_for_it(
    project: Project, begin: Callable[[], Watched]
) -> None:
    settings(project, "[notify]\nevery_failure = true\n")
    desired.write(project.places, WANTED)
    mine = begin()
    mine.until(lambda: project.drivers("orders"), "a driver")
    first = None

    def has_driver() -> int | None:
        found = [m for m in project.drivers("orders") if m.is_leader]
        is_beating = found and "sampled" in project.events_text(found[0].run)
        return found[0].process.pid if is_beating else None

    mine.until(has_driver, "a driver that works")
    first = has_driver()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    mine.until(mine.open, "an alert")
    opened = mine.open()
    mine.until(lambda: not mine.open(), "its end")

    assert [key.partition("::")[0] for key in opened] == ["run-failed:orders"]
    assert [alert.rule for alert in mine.alerts()] == ["run-failed"]
    mine.end()


@pytest.mark.e2e
def test_a_pipeline_that_a_person_stops_has_no_open_alert(project: Project) -> None:
    settings(project, '[rules.busy]\nwhen = "rows_in > 3"\n')
    project.supervise()
    project.deploy("orders")

    def states() -> dict[str, bool]:
        with closing(db.open_alerts(project.places.alerts)) as conn:
            found = alerts.list_alerts(conn, "all")
        return {alert.key: alert.resolved_at is None for alert in found}

    until(lambda: states() == {"busy:orders:q": True}, what="an alert")
    project.ask(Action.STOP, "orders")
    until(lambda: states() == {"busy:orders:q": False}, what="the end of the alert")


def test_a_rule_with_sql_follows_the_results_of_the_relay(
    project: Project, begin: Callable[[], Watched]
) -> None:
    settings(project, '[rules.hot]\nsql = "SELECT city FROM averages WHERE cpu > 90"\n')
    mine = begin()
    found = SqlResult("hot", time.time() + 60, rows=2, first="city=Bern", since=time.time())
    sql_rules.write(project.places, [found])

    mine.until(mine.open, "an alert")
    sql_rules.write(project.places, [replace(found, rows=0)])
    mine.ahead += 10
    mine.until(lambda: not mine.open(), "its end")

    (alert,) = mine.alerts()
    assert alert.title.startswith("hot: the SQL returns 2 rows; the first: city=Bern")


def test_an_invalid_rule_leaves_the_others_and_is_logged(
    project: Project, begin: Callable[[], Watched], caplog: pytest.LogCaptureFixture
) -> None:
    settings(project, '[rules.busy]\nwhen = "rows_inn > 3"\n')
    mine = begin()

    mine.tick()

    assert "Unknown metric 'rows_inn'" in caplog.text


def test_an_alert_of_a_pipeline_that_no_longer_exists_is_over(
    project: Project, begin: Callable[[], Watched]
) -> None:
    mine = begin()
    with closing(db.open_alerts(project.places.alerts)) as conn:
        for key in ("lag:gone:q", "store:history.db"):
            alert = alerts.OpenAlert(key, key.partition(":")[0], "gone", "It lags.")
            alerts.open_once(conn, alert, 1.0)

    mine.until(lambda: "lag:gone:q" in mine.resolved(), "its end")


# ---- facts


def test_the_size_of_headraces_own_files_is_measured_by_part(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "events.jsonl").write_bytes(b"x" * 1000)
    (tmp_path / "history.db").write_bytes(b"x" * 500)

    assert host_facts.sizes(tmp_path) == {"history.db": 500, "runs": 1000}
    assert host_facts.sizes(tmp_path / "missing") == {}


def test_the_time_until_a_disk_is_full_needs_a_steady_loss() -> None:
    hour = [(60.0 * minute, 60) for minute in range(61)]
    falling = [(at, 10**9 - int(at) * 1000) for at, _ in hour]
    once = [(at, 10**9 if at < 600 else 5 * 10**8) for at, _ in hour]

    assert host_facts.full_in_s(falling) == pytest.approx(996_400, rel=0.01)
    assert host_facts.full_in_s(once) is None
    assert host_facts.full_in_s(falling[:20]) is None
    assert host_facts.full_in_s([(at, 10**9) for at, _ in hour]) is None


def test_affected_outputs_include_those_of_later_queries_and_other_pipelines() -> None:
    def query(name: str, sink: dict[str, str], *inputs: str) -> Query:
        return Query(name, "p.py:1", inputs, sink, "append", {}, None, "exactly-once", "")

    files = {"kind": "parquet", "path": "/p/data/kept"}
    first = Definition(
        "shop", "dev", "v1", "shop.py",
        (Node("raw", "source", "p.py:1", connector={"kind": "text", "path": "/in"}),),
        (query("kept", files, "raw"), query("totals", {"kind": "live"}, "kept")),
    )  # fmt: skip
    source = Node("kept", "source", "q.py:1", connector=files)
    view = Node("clean", "view", "q.py:2", inputs=("kept",))
    reader = query("report", {"kind": "kafka", "topic": "reports"}, "clean")
    second = Definition("reports", "dev", "v1", "reports.py", (source, view), (reader,))

    found = outputs.affected([first, second], "/p")

    assert found["shop"]["kept"] == (
        "kept → data/kept (parquet)", "totals (live)", "report → reports (kafka)",
    )  # fmt: skip
    assert found["shop"]["totals"] == ("totals (live)",)
