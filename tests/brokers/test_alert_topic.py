"""`hr.alert` under the real-time trigger: a row is an open alert long before its batch ends."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from brokers.cluster import Cluster
from brokers.conftest import everything, made, sent
from e2e import rig
from headrace.connectors.alert_rows import TEXT_CHARS_MAX

pytestmark = pytest.mark.e2e

PIPELINE = """
from pyspark.sql import functions as F

import headrace as hr

ROW = "cluster int, load double, at timestamp"


@hr.stream(
    to=hr.alert(key="cluster", title="Cluster {cluster}: load {load:.1f}", severity="critical",
                clear="load < 90", at="at"),
    trigger=hr.real_time("20 seconds", otherwise="1 second"),
)
def overloaded(raw):
    return raw.select(F.from_json(F.col("value").cast("string"), ROW).alias("r")).select("r.*")


@hr.stream(
    to=hr.alert(key="cluster", title="Plain {cluster}"),
    trigger=hr.real_time("20 seconds", otherwise="1 second"),
)
def plain(raw):
    cluster = "get_json_object(CAST(value AS STRING), '$.cluster') AS cluster"
    return raw.selectExpr(cluster, "map('a', 1) AS few", "sequence(1, 300000) AS many")
"""
SETTINGS = """
[sources.raw]
kind = "kafka"
servers = "{servers}"
subscribe = "{source}"
starting = "earliest"
[alerts]
servers = "{servers}"
topic = "{alerts}"
"""


def row(cluster: int, load: float, second: int) -> str:
    at = f"2026-11-16T10:00:{second:02d}Z"
    return json.dumps({"cluster": cluster, "load": load, "at": at})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, broker: Cluster) -> Iterator[rig.Project]:
    folder = tmp_path_factory.mktemp("alert-topic")
    source, alerts = made(broker), made(broker)
    (folder / "guard.py").write_text(PIPELINE)
    settings = SETTINGS.format(servers=broker.servers(), source=source, alerts=alerts)
    (folder / "headrace.toml").write_text(settings)
    (folder / "topics.json").write_text(json.dumps([source, alerts]))
    found = rig.Project(folder)
    found.headrace("up")
    yield found
    found.headrace("down", code=None)


def topics(project: rig.Project) -> tuple[str, str]:
    source, alerts = json.loads((project.folder / "topics.json").read_text())
    return source, alerts


def listed(project: rig.Project, *more: str) -> list[dict[str, Any]]:
    found = json.loads(project.headrace("alerts", "list", "--json", *more))
    return list(found["alerts"])


def told(project: rig.Project) -> list[str]:
    lines = project.headrace("events", "guard", "--json").splitlines()
    found = [json.loads(line) for line in lines]
    return [one["event"] for one in found if one.get("text", "").startswith("Cluster 4")]


def plain(project: rig.Project) -> dict[str, int]:
    return {one["title"]: one["count"] for one in listed(project) if one["query"] == "plain"}


def is_taking(project: rig.Project) -> bool:
    path = project.folder / ".headrace" / "alerttopics.json"
    return path.exists() and json.loads(path.read_text())["queries"][0]["until"] is not None


def batches(project: rig.Project) -> int:
    queries = project.status("guard")["queries"]
    return int(next(one["batches"] for one in queries if one["name"] == "overloaded"))


def partitions(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(timeout=10).topics[topic].partitions)


def counted(project: rig.Project, cluster: int) -> int:
    title = f"Cluster {cluster}:"
    return sum(one["count"] for one in listed(project) if one["title"].startswith(title))


def is_open(project: rig.Project, title: str) -> bool:
    return any(one["title"] == title for one in listed(project))


def written(broker: Cluster, alerts: str, cluster: int) -> int:
    """Rows in the topic: `overloaded` has a number there, `plain` a text."""
    values = [record.value() for record in everything(broker, alerts)]
    same = re.compile(rb'"cluster":"?%d\b' % cluster)
    return sum(same.search(value) is not None for value in values)


def relay(project: rig.Project) -> psutil.Process:
    (found,) = [
        one for one in rig.processes_in(project.folder) if "headrace.relay.main" in rig.words(one)
    ]
    return found


def test_the_query_runs_in_real_time(project: rig.Project) -> None:
    queries = project.status("guard")["queries"]

    assert {query["name"] for query in queries} == {"overloaded", "plain"}
    said = project.headrace("check")
    assert "real-time 20 s" in said


def test_a_row_opens_an_alert_before_its_batch_ends_and_another_resolves_it(
    project: rig.Project, broker: Cluster
) -> None:
    source, _ = topics(project)
    rig.eventually("its first batch began", lambda: is_taking(project), 60)
    before = batches(project)
    sent(broker, source, row(4, 99.25, 1))
    rig.eventually("it is open", lambda: is_open(project, "Cluster 4: load 99.2"), 30)
    sent(broker, source, row(4, 99.5, 2))
    rig.eventually("it is counted", lambda: counted(project, 4) == 2, 30)
    sent(broker, source, row(4, 20.0, 3))
    rig.eventually("it is resolved", lambda: counted(project, 4) == 0, 30)
    # Three rows one after the other, each sent when the last was answered.
    assert batches(project) - before < 3, "each row waited for the end of a batch"

    rig.eventually("it is told of", lambda: len(told(project)) == 2, 30)
    assert told(project) == ["alert_opened", "alert_resolved"]


def test_a_column_too_large_for_a_record_is_told_by_its_beginning(project: rig.Project) -> None:
    """`plain` has one of 2 MB in each row."""
    rig.eventually("its rows are taken", lambda: plain(project).get("Plain 4") == 3, 30)

    data = next(one["data"] for one in listed(project) if one["title"] == "Plain 4")
    assert data["few"] == {"a": 1}
    assert data["many"].startswith("[1,2,3,")
    assert len(data["many"]) == TEXT_CHARS_MAX


def test_what_was_sent_twice_or_is_no_row_changes_nothing(
    project: rig.Project, broker: Cluster
) -> None:
    source, alerts = topics(project)
    sent(broker, source, row(5, 99.0, 8))
    rig.eventually("it is open", lambda: is_open(project, "Cluster 5: load 99.0"), 30)
    # Not that of `plain`, which may be the last one: without a moment it would count.
    again = next(r.value() for r in everything(broker, alerts) if b'"cluster":5' in r.value())

    sent(broker, alerts, again, "no json", json.dumps({"about": "{}"}), again)
    sent(broker, source, row(6, 99.0, 9))

    rig.eventually("the last is open", lambda: is_open(project, "Cluster 6: load 99.0"), 30)
    (five,) = [one for one in listed(project) if one["title"].startswith("Cluster 5")]
    assert five["count"] == 1


def test_a_killed_relay_is_started_again_and_goes_on_where_it_was(
    project: rig.Project, broker: Cluster
) -> None:
    """Also of `plain`, whose rows have no moment of their own: only its place keeps them apart."""
    source, _ = topics(project)
    killed = relay(project)
    rig.kill(killed.pid)
    killed.wait(30)

    sent(broker, source, row(7, 99.0, 20))

    rig.eventually("it is open", lambda: is_open(project, "Cluster 7: load 99.0"), 60)
    counts = {one["title"][:9]: one["count"] for one in listed(project, "--all")}
    assert counts["Cluster 5"] == counts["Cluster 6"] == counts["Cluster 7"] == 1
    rig.eventually("plain too", lambda: plain(project).get("Plain 7") == 1, 30)
    assert plain(project) == {"Plain 4": 3, "Plain 5": 1, "Plain 6": 1, "Plain 7": 1}


def test_a_topic_made_anew_with_more_partitions_is_read_from_its_beginning(
    project: rig.Project, broker: Cluster
) -> None:
    """As when somebody deletes it by mistake: what comes afterwards is not lost."""
    source, alerts = topics(project)
    admin = AdminClient({"bootstrap.servers": broker.servers()})
    admin.delete_topics([alerts])[alerts].result(30)
    rig.eventually("it is gone", lambda: alerts not in admin.list_topics(timeout=10).topics, 30)
    made(broker, 2, alerts)

    sent(broker, source, row(8, 99.0, 30))
    rig.eventually("it is open", lambda: is_open(project, "Cluster 8: load 99.0"), 90)

    admin.create_partitions([NewPartitions(alerts, 3)])[alerts].result(30)
    eight = next(r for r in everything(broker, alerts) if b'"cluster":8' in r.value())
    changed = eight.value().replace(b'"cluster":8', b'"cluster":9')
    rig.eventually("it is known", lambda: partitions(admin, alerts) == 3, 30)
    sent(broker, alerts, {"value": changed, "partition": 2})
    rig.eventually("it is open", lambda: is_open(project, "Cluster 9: load 99.0"), 60)


def test_rows_that_the_broker_deleted_before_they_were_taken_are_an_alert(
    project: rig.Project, broker: Cluster
) -> None:
    source, alerts = topics(project)
    admin, stopped = AdminClient({"bootstrap.servers": broker.servers()}), relay(project)
    stopped.suspend()
    try:
        time.sleep(2)  # what it has asked for is answered by then
        sent(broker, source, row(10, 99.0, 40))
        rig.eventually("both rows are there", lambda: written(broker, alerts, 10) == 2, 60)
        upto = [TopicPartition(alerts, n, OFFSET_END) for n in range(partitions(admin, alerts))]
        for done in admin.delete_records(upto).values():
            done.result(30)
    finally:
        stopped.resume()

    told_of = "were deleted before they were read"
    rig.eventually("it is told", lambda: any(told_of in o["title"] for o in listed(project)), 60)
    sent(broker, source, row(11, 99.0, 41))
    rig.eventually("it goes on", lambda: is_open(project, "Cluster 11: load 99.0"), 60)
    assert not is_open(project, "Cluster 10: load 99.0")


def test_a_deployment_that_changes_the_topic_leaves_no_row_behind(
    project: rig.Project, broker: Cluster
) -> None:
    """The run before goes on writing to the old topic until its batch ends."""
    source, alerts = topics(project)
    path, before = project.folder / "headrace.toml", project.live_run("guard")
    path.write_text(path.read_text().replace(alerts, made(broker)))
    clusters = itertools.count(100)

    def goes_on() -> bool:
        sent(broker, source, row(next(clusters), 99.0, 50))
        return project.live_run("guard") != before

    with subprocess.Popen(project.command("up"), stdout=subprocess.DEVNULL) as deploying:
        rig.eventually("the next run begins", goes_on, 120, 0.5)
        deploying.wait(120)

    expected = {f"Cluster {number}: load 99.0" for number in range(100, next(clusters))}
    rig.eventually(
        "all are open",
        lambda: expected <= {one["title"] for one in listed(project)},
        60,
    )


def test_without_a_topic_for_alerts_it_falls_back_and_check_says_so(
    tmp_path: Path, broker: Cluster
) -> None:
    source = made(broker)
    (tmp_path / "guard.py").write_text(PIPELINE)
    settings = SETTINGS.format(servers=broker.servers(), source=source, alerts="x")
    (tmp_path / "headrace.toml").write_text(settings.partition("[alerts]")[0])

    said = rig.Project(tmp_path).headrace("check", code=None)  # with the warnings

    assert "every 1 s" in said
    assert "'overloaded' runs with its otherwise= trigger, not in real time" in said
