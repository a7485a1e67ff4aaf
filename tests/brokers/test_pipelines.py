"""Pipelines on a real broker under a real supervisor: kills, a partition added, records expired.

Exactly once into files is proved by the multiset of what was produced; at least once into a topic
by the set of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from brokers.cluster import Cluster, tool
from brokers.conftest import everything, made, sent
from brokers.numbered import Numbers
from e2e import rig
from headrace.checkpoints import committed_files
from headrace.errors import ConnectorError
from headrace.model.state_paths import StatePaths
from headrace.state import run_folders
from headrace.testing import row_comparison

pytestmark = pytest.mark.e2e
EXAMPLES = Path(pyspark.__file__).parent / "examples/src/main/python/sql/streaming"

PIPELINE = """
from pyspark.sql import functions as F

import headrace as hr


@hr.view
def numbers(raw):
    return raw.select(F.col("value").cast("string").alias("value"))


@hr.stream(to=hr.parquet("data/kept"), every="500 milliseconds", fresh_within="2 minutes")
def kept(numbers):
    return numbers


@hr.stream(to="copies", every="500 milliseconds")
def copied(numbers):
    return numbers
"""
SETTINGS = """
[restart]
delay_s_min = 0.2
[sources.raw]
kind = "kafka"
servers = "{servers}"
subscribe = "{topic}"
starting = "earliest"
[sinks.copies]
kind = "kafka"
servers = "{servers}"
topic = "{copies}"
[spark]
"spark.master" = "local[2]"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, broker: Cluster) -> Iterator[rig.Project]:
    folder = tmp_path_factory.mktemp("kafka-project")
    topic, copies = made(broker, 2), made(broker, 2)
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "flow.py").write_text(PIPELINE)
    (folder / "headrace.toml").write_text(
        SETTINGS.format(servers=broker.servers(), topic=topic, copies=copies)
    )
    (folder / "topics.json").write_text(json.dumps([topic, copies]))
    found = rig.Project(folder)
    yield found
    with contextlib.suppress(AssertionError):
        found.headrace("down")


def topics(project: rig.Project) -> tuple[str, str]:
    topic, copies = json.loads((project.folder / "topics.json").read_text())
    return topic, copies


def state(project: rig.Project) -> str:
    return str(project.status("flow").get("state"))


def unanswered(project: rig.Project) -> list[dict[str, Any]]:
    """Its queries, once the source of each is known not to answer."""
    queries = project.status("flow").get("queries", [])
    told = [q for q in queries if "source-unanswered" in str(q["findings"])]
    return queries if len(told) == len(queries) == 2 else []


def kept(project: rig.Project) -> list[str]:
    """Exactly what a reader of the sink may see."""
    try:
        files = committed_files.files(project.folder / "data" / "kept")
    except ConnectorError:
        return []
    return [v for one in files for v in pq.read_table(one.path)["value"].to_pylist()]


def expire(broker: Cluster, topic: str) -> None:
    """As retention does, at once: all that is in its first partition."""
    admin = AdminClient({"bootstrap.servers": broker.servers()})
    for done in admin.delete_records([TopicPartition(topic, 0, -1)]).values():
        done.result(30)


def copied(broker: Cluster, copies: str) -> Counter[str]:
    return Counter(m.value().decode() for m in everything(broker, copies))


def goes_on(project: rig.Project, what: str) -> None:
    """Both queries read more than they had."""
    before = len(kept(project))
    rig.eventually(
        f"{what}: new rows are committed",
        lambda: len(kept(project)) > before + 50,
        120,
    )


def test_kills_of_broker_and_jvm_lose_and_double_nothing(
    project: rig.Project, broker: Cluster
) -> None:
    topic, copies = topics(project)
    numbers = Numbers(broker, topic)
    project.headrace("up")
    goes_on(project, "at first")

    broker.stop()
    time.sleep(3)  # the outage itself: batches run into it
    broker.start()
    goes_on(project, "after the broker's kill")

    rig.kill(project.status("flow")["jvm_pid"])
    goes_on(project, "after the JVM's kill")

    admin = AdminClient({"bootstrap.servers": broker.servers()})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    rig.eventually(
        "the broker knows it",
        lambda: len(admin.list_topics(timeout=10).topics[topic].partitions) == 3,
        60,
    )
    numbers.stop()
    sent(broker, topic, *({"value": f"new-{n}", "partition": 2} for n in range(20)))
    expected = Counter([*numbers.taken, *(f"new-{n}" for n in range(20))])
    assert len(expected) > 500
    rig.eventually(
        "everything is read",
        lambda: len(kept(project)) >= expected.total(),
        120,
    )
    rig.eventually(
        "everything is copied", lambda: expected.keys() <= copied(broker, copies).keys(), 120
    )
    broker.stop()
    silent = rig.eventually("both name the silent broker", lambda: unanswered(project), 90)
    error = f"Kafka {broker.servers()}: connection refused"
    assert "its source has not answered for" in project.status("flow")["why"]
    for query in silent:
        (found,) = [one for one in query["findings"] if one["slug"] == "source-unanswered"]
        assert error in found["what"]
        assert (found["severity"], found["where"]) == ("problem", broker.servers())
        assert (query["lag_rows"], query["lag_seconds"]) == (None, None), "unknown is not 0"
    assert error in project.headrace("why", "flow")
    broker.start()
    rig.eventually("it is well again", lambda: state(project) == "running", 60)
    told = [json.loads(line) for line in project.headrace("events", "flow", "--json").splitlines()]
    for name in ("kept", "copied"):
        mine = [one for one in told if one["query"] == name and "outage" in one["event"]]
        assert [one["event"] for one in mine[-2:]] == ["outage_began", "outage_ended"]
        assert (mine[-2]["error"], mine[-1]["is_answered"]) == (error, True)
    project.headrace("stop", "flow")

    difference = row_comparison.compare(expected.elements(), kept(project))
    assert difference.is_empty, difference
    found = copied(broker, copies)
    assert found.keys() == expected.keys(), "a topic may have a row twice, but has every row"


def lag_of(project: rig.Project, script: str) -> dict[str, Any]:
    found = json.loads(project.headrace("lag", script, "--json"))["queries"]
    return next((one for one in found if one["records"] == 0), {})


def lag(project: rig.Project, query: str) -> dict[str, Any]:
    found = json.loads(project.headrace("lag", "flow", "--json"))["queries"]
    return next((one for one in found if one["query"] == query), {})


def test_lag_is_known_also_while_the_query_is_down(project: rig.Project, broker: Cluster) -> None:
    topic, _ = topics(project)
    rig.eventually("it has read all", lambda: lag(project, "kept").get("records") == 0, 60)

    sent(broker, topic, *({"value": f"waits-{n}", "partition": 1} for n in range(7)))

    def seven() -> dict[str, Any]:
        one = lag(project, "kept")
        return one if one.get("records") == 7 and one["loss_in_s"] is not None else {}

    # A slow broker may not tell the age in time; it is asked again after a minute.
    found = rig.eventually("seven wait, and since when", seven, 120)
    (behind,) = [one for one in found["partitions"] if one["high"] > one["next"]]
    assert (behind["topic"], behind["partition"]) == (topic, 1)
    assert 0 <= found["seconds"] < 600
    week_s = 7 * 86_400  # a broker's own default
    assert week_s - 600 < found["loss_in_s"] <= week_s

    broker.stop()
    rig.eventually("nobody answers", lambda: "does not answer" in str(lag(project, "kept")), 60)
    silent = lag(project, "kept")
    unknown = ("records", "seconds", "catch_up_s", "loss_in_s", "gone")
    assert [silent[name] for name in unknown] == [None] * 5
    assert "unknown" in project.headrace("lag", "flow")
    broker.start()
    rig.eventually("it is known again", lambda: lag(project, "kept").get("records") == 7, 60)


def test_freshness_is_counted_from_when_a_record_came(project: rig.Project) -> None:
    found = json.loads(project.headrace("progress", "flow", "-n", "20", "--json"))

    fresh = [one["fresh"] for one in found["progress"] if one.get("fresh")]
    assert fresh
    assert {one["basis"] for one in fresh} == {"arrival"}


def test_records_that_expired_before_they_were_read_stop_it_and_are_told(
    project: rig.Project, broker: Cluster
) -> None:
    topic, _ = topics(project)
    sent(broker, topic, *({"value": f"gone-{n}", "partition": 0} for n in range(10)))
    expire(broker, topic)

    project.headrace("start", "flow")
    rig.eventually("it needs attention", lambda: state(project) == "needs-attention", 90)

    why = project.headrace("why", "flow")
    assert "Kafka deleted records before they were read" in why
    assert f"gone: kept: {topic}, partition 0: 10 records" in why

    said = project.headrace("start", "flow", "--accept-gap", "--yes")
    assert f"kept: {topic}, partition 0: 10 records" in said
    sent(broker, topic, *({"value": f"later-{n}", "partition": 0} for n in range(5)))
    later = {f"later-{n}" for n in range(5)}
    rig.eventually("it goes on with what is there", lambda: later <= set(kept(project)), 60)
    assert not [value for value in kept(project) if value.startswith("gone-")]
    with contextlib.closing(sqlite3.connect(project.state / "history.db")) as book:
        told = [text for (text,) in book.execute("SELECT text FROM audit")]
    assert [text for text in told if "without the missing records: kept:" in text]


def test_a_gap_is_accepted_once_and_the_next_one_stops_it_again(
    project: rig.Project, broker: Cluster
) -> None:
    topic, _ = topics(project)

    def is_strict() -> bool:
        spec = run_folders.spec_of(
            StatePaths(project.state), str(project.status("flow").get("run"))
        )
        return spec is not None and not spec.accepts_gap

    rig.eventually("a strict run follows", is_strict, 90)
    rig.eventually("it runs", lambda: state(project) == "running", 60)
    told = project.headrace("events", "flow")
    reason = "the accepted gap has been skipped; restarting with data-loss checks on"
    assert f"drain started: {reason}" in told

    jvm = project.status("flow")["jvm_pid"]
    os.kill(jvm, signal.SIGSTOP)
    try:
        sent(broker, topic, *({"value": f"gone-{n}", "partition": 0} for n in range(3)))
        expire(broker, topic)
    finally:
        os.kill(jvm, signal.SIGCONT)
    rig.eventually("it needs attention", lambda: state(project) == "needs-attention", 90)
    assert f"gone: kept: {topic}, partition 0: 3 records" in project.headrace("why", "flow")

    project.headrace("start", "flow", "--accept-gap", "--yes")
    rig.eventually("it runs", lambda: state(project) == "running", 60)
    project.headrace("stop", "flow")


def test_the_consoles_own_tools_read_what_was_written(
    project: rig.Project, broker: Cluster
) -> None:
    _, copies = topics(project)

    said = tool(
        broker, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server",
        broker.servers(), "--topic", copies, "--from-beginning", "--max-messages", "100",
    )  # fmt: skip

    written = copied(broker, copies)
    assert len([line for line in said.split() if line in written]) == 100


def test_check_connect_asks_every_topic_of_the_pipeline(
    project: rig.Project, broker: Cluster
) -> None:
    topic, copies = topics(project)

    said = project.headrace("check", "--connect")

    assert f"{topic}: 2 partitions" in said or f"{topic}: 3 partitions" in said
    assert f"{copies}: 2 partitions, with permission to write" in said


def test_sql_on_a_topic(project: rig.Project, broker: Cluster) -> None:
    _, copies = topics(project)

    question = "SELECT count(DISTINCT CAST(value AS STRING)) AS n FROM copied"
    found = json.loads(project.headrace("sql", "--spark", "--json", question))

    values = {m.value() for m in everything(broker, copies)}
    assert found["rows"] == [[len(values)]]


def test_sparks_own_word_count_on_kafka_runs_unchanged(
    tmp_path: Path, broker: Cluster, topic: str
) -> None:
    sent(broker, topic, "apple pear", "apple")
    project = rig.Project(tmp_path)
    checkpoints = '[spark]\n"spark.sql.streaming.checkpointLocation" = "checkpoints"\n'
    (tmp_path / "headrace.toml").write_text(checkpoints)
    script = str(EXAMPLES / "structured_kafka_wordcount.py")
    name = "structured_kafka_wordcount"
    command = project.command("run", script, "--", broker.servers(), "subscribe", topic)
    shown = tmp_path / "shown.txt"
    with shown.open("w") as out:
        run = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True)
    try:
        rig.eventually("it runs", lambda: project.status(name).get("state") == "running", 90)
        sent(broker, topic, "apple pear", "apple")
        rig.eventually("it counts", lambda: "|apple|" in shown.read_text().replace(" ", ""), 60)
        told = rig.eventually("its lag is known", lambda: lag_of(project, name), 60)
        assert (told["query"], told["problem"]) == ("query_1", None)
        assert {one["topic"] for one in told["partitions"]} == {topic}
        assert [q["guarantee"] for q in project.status(name)["queries"]] == ["at-least-once"]
    finally:
        run.send_signal(signal.SIGINT)
        code = run.wait(90)
    assert code == 0, shown.read_text()
    assert "pear" in shown.read_text()
