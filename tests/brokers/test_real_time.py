"""The real-time trigger on a real broker: what is refused before a start, and rows in milliseconds.

Every refusal is held against Spark's own: what we refuse Spark refuses, what we let pass it runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokers.cluster import Cluster
from brokers.conftest import made, received, sent
from e2e import rig
from headrace.connectors.kafka.connector import kafka
from headrace.define import checks
from headrace.define.graph import GraphNode
from headrace.define.triggers import real_time
from headrace.driver import plan_analysis, realtime_checks
from headrace.transforms.route import route

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

Frame = Callable[[Any, Any], Any]


def _upper() -> Any:
    from pyspark.sql import functions as F

    return F.udf(lambda text: text.upper(), "string")


def _customers(spark: Any) -> Any:
    return spark.createDataFrame([("a", 1)], "value string, customer int")


def _text(raw: Any) -> Any:
    return raw.selectExpr("CAST(value AS STRING) AS value")


def _broadcast(spark: Any, raw: Any) -> Any:
    from pyspark.sql import functions as F

    return _text(raw).join(F.broadcast(_customers(spark)), "value", "left").select("value")


FINE: dict[str, Frame] = {
    "a projection": lambda spark, raw: _text(raw),
    "a filter": lambda spark, raw: _text(raw).where("value <> 'x'"),
    "a broadcast join": _broadcast,
    "a route": lambda spark, raw: route(_text(raw), {"t": "true"}).select("value"),
}
REFUSED: dict[str, tuple[Frame, str]] = {
    "a function": (lambda spark, raw: _text(raw).select(_upper()("value").alias("value")),
                   "a Python function"),
    "a merge join": (lambda spark, raw: _text(raw).join(_customers(spark).hint("merge"), "value")
                     .select("value"), "a join that is not a broadcast"),
    "a repartition": (lambda spark, raw: _text(raw).repartition(2), "a repartition"),
    "a coalesce": (lambda spark, raw: _text(raw).coalesce(1), "it uses coalesce"),
    "itself twice": (lambda spark, raw: _text(raw).union(_text(raw)), "one source twice"),
    "a count": (lambda spark, raw: _text(raw).groupBy("value").count().select("value"),
                "it is stateful (aggregate)"),
}  # fmt: skip


def problems(spark: Any, frame: Any) -> list[str]:
    remembered = [one.name for one in plan_analysis.operators(spark, frame)]
    found = checks.real_time_problems(
        GraphNode("q", "query", "p.py:1"),
        [] if remembered else realtime_checks.find_unsupported_operators(spark, frame),
        remembered,
        is_twice=realtime_checks.is_read_twice(plan_analysis.sources(frame)),
        batch_s=60,
    )
    return [one.what for one in found]


@pytest.mark.parametrize(
    ("limit", "option"),
    [({"max_rows": 10}, "maxOffsetsPerTrigger"), ({"min_partitions": 4}, "minPartitions")],
)
def test_a_limit_on_the_rows_of_a_batch_is_refused_by_us_as_by_spark(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path, limit: dict[str, int], option: str
) -> None:
    limited = kafka(broker.servers(), subscribe=topic, **limit)
    found = checks.real_time_problems(
        GraphNode("q", "query", "p.py:1"), [], [], is_twice=False, batch_s=60,
        limited=["raw"] if limited.capabilities.has_batch_limit else [],
    )  # fmt: skip

    assert [one.what for one in found] == [
        "'q' cannot run in real time: raw limits how much a batch or a task reads "
        "(max_rows, min_partitions, …)."
    ]
    frame = _text(limited.read(spark))
    query = begun(spark, broker, frame, topic, tmp_path)
    with pytest.raises(Exception, match=f"(?i){option}"):
        query.awaitTermination(180)


def begun(spark: Any, broker: Cluster, frame: Any, to: str, folder: Path) -> Any:
    trigger = real_time("30 seconds")  # longer than what is slow here
    writer = kafka(broker.servers(), topic=to).attach(
        frame.writeStream, query="fast", mode="update", checkpoint=str(folder)
    )
    with realtime_checks.without_adaptive(spark, trigger):
        return writer.trigger(**trigger.arguments()).start()


@pytest.mark.parametrize("name", FINE)
def test_what_passes_here_runs_and_hands_rows_on_at_once(
    spark: Any, broker: Cluster, tmp_path: Path, name: str
) -> None:
    source, target = made(broker), made(broker)
    raw = kafka(broker.servers(), subscribe=source, starting="earliest").read(spark)
    frame = FINE[name](spark, raw)
    assert problems(spark, frame) == []

    query = begun(spark, broker, frame, target, tmp_path / "c")
    try:
        sent(broker, source, "first")
        received(broker, target, 1, timeout_s=60)
        sent(broker, source, "second")
        came = [m.timestamp()[1] for m in received(broker, target, 2)]
        left = [m.timestamp()[1] for m in received(broker, source, 2)]
    finally:
        query.stop()

    assert came[1] - left[1] < 15_000, "the second row must not wait for the end of a batch"


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_here_spark_refuses_too(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path, name: str
) -> None:
    make, words = REFUSED[name]
    frame = make(spark, kafka(broker.servers(), subscribe=topic, starting="earliest").read(spark))

    found = problems(spark, frame)

    assert found
    assert words in " ".join(found)
    assert "STREAMING_REAL_TIME_MODE" in of_spark(spark, broker, frame, topic, tmp_path / "c")


def of_spark(spark: Any, broker: Cluster, frame: Any, to: str, folder: Path) -> str:
    """What Spark itself says of it, at the start or with the first batch."""
    from pyspark.errors import PySparkException

    try:
        query = begun(spark, broker, frame, to, folder)
    except PySparkException as exc:
        return str(exc.getCondition())
    try:
        query.awaitTermination(180)
    except PySparkException as exc:
        return str(exc)
    finally:
        query.stop()
    return "it ran"


def test_slots_are_counted_from_the_brokers_partitions(broker: Cluster) -> None:
    three, two = made(broker, 3), made(broker, 2)
    sources = [kafka(broker.servers(), subscribe=one) for one in (three, two)]

    assert realtime_checks.count_needed_slots(sources) == 5
    assert realtime_checks.count_needed_slots([kafka("127.0.0.1:1", subscribe="t")]) is None
    told = checks.too_few_slots({"fast": 5}, ["history"], there=5)
    assert told is not None
    assert "local[7]" in str(told.fix)
    assert checks.too_few_slots({"fast": 5}, ["history"], there=6) is None


@pytest.mark.parametrize(
    ("master", "count"), [("local", 1), ("local[3]", 3), ("local[*]", 8), ("spark://h:1", None)]
)
def test_slots_of_a_master(master: str, count: int | None) -> None:
    assert realtime_checks.slots(master, 8) == count


FAST = """
import headrace as hr


@hr.stream(to="out", trigger=hr.real_time("10 seconds", otherwise="1 second"))
def fast(raw):
    return raw.select("value")
"""
SETTINGS = """
[drain]
timeout_s = 5
[sources.raw]
kind = "kafka"
servers = "{servers}"
subscribe = "{source}"
starting = "earliest"
[sinks.out]
kind = "kafka"
servers = "{servers}"
topic = "{target}"
"""


def first_lag(project: rig.Project) -> dict[str, Any]:
    found = json.loads(project.headrace("lag", "--json"))["queries"]
    return dict(found[0]) if found else {}


def looked_at(project: rig.Project) -> dict[str, Any]:
    one = first_lag(project)
    return one if one and one["written_s"] is not None else {}


def test_a_real_time_pipeline_stops_at_the_end_of_its_batch_and_doubles_nothing(
    tmp_path: Path, broker: Cluster
) -> None:
    source, target = made(broker, 2), made(broker)
    (tmp_path / "quick.py").write_text(FAST)
    settings = SETTINGS.format(servers=broker.servers(), source=source, target=target)
    (tmp_path / "headrace.toml").write_text(settings)
    project = rig.Project(tmp_path)
    try:
        project.headrace("up")
        sent(broker, source, *(f"{n}" for n in range(20)))
        received(broker, target, 20, timeout_s=60)
        (query,) = project.status("quick")["queries"]
        lag = rig.eventually("a batch is done, and looked at", lambda: looked_at(project), 60)
        said = project.headrace("stop", "quick")
        assert "fast: stopped cleanly after batch" in said
        project.headrace("start", "quick")
        sent(broker, source, "last")
        found = [m.value().decode() for m in received(broker, target, 21, timeout_s=60)]
    finally:
        project.headrace("down", code=None)
    assert query["guarantee"] == "at-least-once"
    assert lag["is_real_time"]
    assert 0 <= lag["written_s"] < 60
    assert lag["note"].startswith("real time: as of the last batch; newest row written ")
    assert sorted(found) == sorted([*(f"{n}" for n in range(20)), "last"])


def test_a_master_with_too_few_slots_is_refused_before_it_would_hang(
    tmp_path: Path, broker: Cluster
) -> None:
    source, target = made(broker, 3), made(broker)
    (tmp_path / "quick.py").write_text(FAST)
    settings = SETTINGS.format(servers=broker.servers(), source=source, target=target)
    master = '[spark]\n"spark.master" = "local[2]"\n'
    (tmp_path / "headrace.toml").write_text(settings + master)

    said = rig.Project(tmp_path).headrace("check", code=2)

    assert "This pipeline needs 3 task slots, but there are only 2" in said
    assert "fast: 3" in said
