"""The arithmetic, the input and the checks of the benchmarks on Kafka. Nothing is measured here."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

sys.path.append(str(Path(__file__).parent.parent))  # `bench` is a folder of the repository

from bench import __main__ as program
from bench import figures, kafka_app, kafka_history, kafka_latency, page, sides, topic
from bench.kafka_latency import Window

from headrace.demo import input_reader, loss_count
from headrace.demo.loss_count import Expected, Outputs
from test_bench import result, run

CUSTOMERS = {number: (f"name {number}", "free") for number in range(1, 21)}


def apps(*ratios: float) -> dict[str, Any]:
    more = {"start_cpu_s": 2.0, "mistaken": 0}
    naive = {**run(1000, 10.0), **more, "mistaken": 7}
    rounds = [
        {"round": n, "headrace": {**run(int(1000 * ratio), 10.0), **more}, "naive": naive}
        for n, ratio in enumerate(ratios, 1)
    ]
    return result(rounds, records=1000)


def histories(*pairs: tuple[float, float]) -> dict[str, Any]:
    """Each (hr.parse_json over Spark's own settings, Headrace over the equivalent script)."""
    rounds = []
    for n, (checked, same) in enumerate(pairs, 1):
        rows = {"checked": 1000 * checked, "plain": 1200 * same, "bare": 1200, "naive": 1000}
        one = {side: {**run(int(r), 1.0), "mistaken": 0} for side, r in rows.items()}
        rounds.append({"round": n, **one})
    return result(rounds, records=1000)


def wait(p50: float, p99: float, **more: float) -> dict[str, Any]:
    return {"p50_ms": p50, "p99_ms": p99, "max_ms": p99 + 1, "count": 75_000, **more}


def latencies(*rounds: tuple[float, float, float]) -> dict[str, Any]:
    """Each (real time p50, p99, alert p50) against a micro-batch of 400 and 1,000 ms."""
    made = [
        {
            "round": n,
            "real_time": wait(p50, p99, borders=1),
            "micro_batch": wait(400.0, 1000.0),
            "alerts": wait(alert, 300.0),
        }
        for n, (p50, p99, alert) in enumerate(rounds, 1)
    ]
    return result(made, seconds=75)


def notices(*rounds: tuple[float, float]) -> dict[str, Any]:
    """Each (p95 of exits, p50 of rows)."""
    made = [
        {
            "round": n,
            "exits": wait(90.0, 2500.0, p95_ms=p95),
            "rows": wait(p50, 900.0, p95_ms=800.0),
        }
        for n, (p95, p50) in enumerate(rounds, 1)
    ]
    return result(made, seconds=120)


# ---- figures


@pytest.mark.parametrize(
    ("results", "met"),
    [
        ({"kafka-app": apps(3.0, 2.0, 2.5)}, [True]),
        ({"kafka-app": apps(3.0, 1.999, 2.5)}, [False]),
        ({"kafka-history": histories((1.3, 0.95), (1.5, 1.0))}, [True, True]),
        ({"kafka-history": histories((1.2, 1.0), (1.5, 0.94))}, [False, False]),
        ({"kafka-latency": latencies((20.0, 200.0, 99.9), (2.0, 100.0, 20.0))}, [True] * 3),
        ({"kafka-latency": latencies((20.1, 201.0, 100.0), (2.0, 100.0, 20.0))}, [False] * 3),
        ({"notices": notices((1999.0, 249.0), (100.0, 10.0))}, [True, True]),
        ({"notices": notices((100.0, 10.0), (2000.0, 250.0))}, [False, False]),
    ],
)
def test_a_target_on_kafka_has_to_hold_in_every_round(
    results: dict[str, Any], met: list[bool]
) -> None:
    assert [target.is_met(found) for target, found in figures.outcomes(results)] == met


def test_a_latency_below_the_clock_is_not_believed() -> None:
    rounds = latencies((0.0, 0.2, 1.0))["rounds"]

    assert figures.sooner(rounds, "p50_ms") == [400.0]
    assert figures.sooner(rounds, "p99_ms") == [1000.0]


def test_cores_for_m6_come_of_the_work_without_the_start() -> None:
    one = {**run(80_000, 10.0), "start_cpu_s": 2.0}

    assert figures.per_working_second(one) == 10_000
    assert figures.cores_needed(one) == pytest.approx(38.9)


# ---- the page


def test_the_applications_table_has_every_round_and_the_worst() -> None:
    made = page.section("kafka-app", {"kafka-app": apps(3.0, 2.0)})

    assert "| 1 | 300 | 100 | 10 s | 10 s | 3.00 |" in made
    assert "| **worst** |  |  |  |  | **2.00** |" in made
    assert "| plain PySpark | jvm 9 | 2 s | 125 | 900 MB | 7 |" in made
    assert "2 rounds" not in made
    assert "3 rounds of 1,000 records" in made


def test_the_projection_for_a_node_is_from_the_worst_round() -> None:
    made = page.section("kafka-app", {"kafka-app": apps(3.0, 2.0)})

    # 2,000 records in 8 CPU-seconds: 250 in each.
    assert "one CPU-second processes 250 records" in made
    assert "**1,556 cores**" in made
    assert "3,112 with plain PySpark" in made


def test_the_tables_of_the_history_and_of_latency() -> None:
    made = page.section("kafka-history", {"kafka-history": histories((1.5, 1.0), (1.3, 0.96))})
    waits = page.section("kafka-latency", {"kafka-latency": latencies((2.0, 90.0, 20.0))})

    assert "| Headrace, `hr.parse_json` | 1,400 (1,300–1,500) | 140 | 1.40 (1.3–1.5) | 0 |" in made
    assert "both with `from_json`: 0.980 (0.96–1)." in made
    assert "| 2 ms (2–2) | 90 ms (90–90) | 91 ms (91–91) | 75,000 |" in waits
    assert "were measured: 1." in waits
    told = page.section("notices", {"notices": notices((300.0, 20.0), (500.0, 40.0))})
    assert "| 30 ms (20–40) | 800 ms (800–800) | 901 ms (901–901) | 150,000 |" in told


# ---- what is measured


def test_what_was_not_asked_for_is_as_usual() -> None:
    given = program.parsed(["kafka-app", "kafka-latency", "overhead", "soak"])
    found = {name: program.asked_for(name, given) for name in given.names}

    assert found["kafka-app"] == {"rounds": 3, "seconds": 60.0, "records": kafka_app.RECORDS}
    assert found["kafka-latency"] == {"rounds": 3, "seconds": kafka_latency.LENGTH_S}
    assert found["overhead"] == {"rounds": 5, "seconds": 60.0}
    assert found["soak"]["rounds"] == 1


def test_what_was_asked_for_wins() -> None:
    given = program.parsed(["kafka-app", "--rounds", "1", "--records", "5000"])

    assert program.asked_for("kafka-app", given)["records"] == 5000
    assert program.asked_for("kafka-app", given)["rounds"] == 1


def test_a_project_without_the_text_to_change_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothingLikeIt"):
        topic.project(tmp_path / "demo", 1234, {"nothingLikeIt": "x"})


# ---- the input


def test_logs_are_the_same_again_and_some_are_damaged() -> None:
    first, second = list(topic.logs(20_000)), list(topic.logs(20_000))
    bad = [line for line in first if input_reader.log_of(line) is None]

    assert first == second
    assert len(first) == 20_000
    assert 50 < len(bad) < 300


def test_five_clusters_a_second_are_opened_and_each_is_cleared() -> None:
    lines = list(itertools.islice(kafka_latency.flapping(), 4 * kafka_latency.RATE))
    bodies = [json.loads(line) for line in lines if b'"cluster_id":1' in line and line[:1] == b"{"
              and input_reader.log_of(line)]  # fmt: skip
    ours = [b for b in bodies if b["cluster_id"] >= kafka_latency.FIRST_CLUSTER]
    opened = [b["cluster_id"] for b in ours if b["load"] > 99]
    cleared = [b["cluster_id"] for b in ours if b["load"] < 90]

    assert opened == list(range(1000, 1020))
    assert cleared == opened[: -kafka_latency.CLEARED_AFTER]


def test_batches_are_counted_by_when_they_were_done(tmp_path: Path) -> None:
    commits = tmp_path / "commits"
    commits.mkdir()
    for batch, at in enumerate((10.0, 20.0, 30.0)):
        (commits / str(batch)).touch()
        os.utime(commits / str(batch), (at, at))
    running = sides.Running(1, tmp_path, tmp_path, tmp_path, lambda: "")

    assert kafka_latency.borders_in(running, Window(15_000, 30_000)) == 1


# ---- the checks of the answers can fail


LINES = list(topic.logs(3_000))
WANT = loss_count.compute_expected(LINES, CUSTOMERS)
RIGHT = Outputs(
    history=WANT.history,
    beats=WANT.beats,
    logins=dict(WANT.logins),
    overloads=WANT.overloads,
    quarantined=WANT.malformed,
)


def lenient() -> Outputs:
    """As `from_json` sees it: some damaged lines are logs."""
    taken = [line for line in WANT.malformed if input_reader.log_of(kafka_history.as_taken(line))]
    mistaken = loss_count.compute_expected(
        [kafka_history.as_taken(line) for line in taken], CUSTOMERS
    )
    left = WANT.malformed - Counter(taken)
    assert taken
    return replace(RIGHT, history=WANT.history + mistaken.history, quarantined=left)


def one_of(rows: Counter[Any]) -> Counter[Any]:
    return Counter([next(iter(rows))])


def test_right_answers_pass() -> None:
    assert kafka_app.judged(WANT, RIGHT) == {"late": 0, "mistaken": 0}
    assert kafka_app.judged_leniently(WANT, lenient(), len(LINES))["mistaken"] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        replace(RIGHT, history=WANT.history - one_of(WANT.history)),
        replace(RIGHT, history=WANT.history + one_of(WANT.history)),
        replace(RIGHT, beats=WANT.beats + one_of(WANT.beats)),
        replace(RIGHT, logins={}),
        replace(RIGHT, quarantined=Counter()),
    ],
    ids=["lost", "doubled", "beat-twice", "no-logins", "no-quarantine"],
)
def test_a_wrong_answer_of_headrace_is_found(wrong: Outputs) -> None:
    with pytest.raises(AssertionError, match="wrong"):
        kafka_app.judged(WANT, wrong)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: replace(f, history=f.history - one_of(WANT.history)),
        lambda f: replace(
            f,
            history=f.history + one_of(WANT.history),
            quarantined=f.quarantined - one_of(f.quarantined),
        ),
        lambda f: replace(f, beats=f.beats - one_of(WANT.beats)),
        lambda f: replace(f, logins={}),
        lambda f: replace(f, quarantined=f.quarantined - one_of(f.quarantined)),
    ],
    ids=["lost", "doubled", "beat-lost", "no-logins", "bad-lost"],
)
def test_a_wrong_answer_of_the_plain_script_is_found(change: Any) -> None:
    with pytest.raises(AssertionError):
        kafka_app.judged_leniently(WANT, change(lenient()), len(LINES))


def test_the_counted_overloads_are_those_above_the_limit() -> None:
    row = (0, 1, "clusterHeartbeat", "load", "WARN", 4, 99.5, "name", "free")
    calm = (*row[:6], 50.0, *row[7:])
    want = Expected(beats=Counter({row: 2, calm: 3}))
    given = kafka_app.Given(topic.Topics("", 0), 5, Path(), want)

    assert (given.overloads, given.clusters) == (2, 1)


def written(output: Path, lines: list[bytes]) -> None:
    """As Spark would write them, in one committed file a day."""
    logs = [log for line in lines if (log := input_reader.log_of(line))]
    (output / "_spark_metadata").mkdir(parents=True)
    entries = ["v1"]
    with duckdb.connect() as conn:
        conn.execute("set timezone = 'UTC'")
        conn.execute("create table t (timestamp timestamptz)")
        rows = [(log.at / 1_000_000,) for log in logs]
        conn.executemany("insert into t values (to_timestamp(?))", rows)
        days = conn.execute("select distinct timestamp::date::varchar from t").fetchall()
        for (day,) in days:
            file = output / f"date={day}" / "part-0.parquet"
            file.parent.mkdir()
            conn.execute(
                f"copy (select * from t where timestamp::date = '{day}') to '{file}'"  # noqa: S608
            )
            entry = {"path": file.as_uri(), "size": file.stat().st_size, "action": "add"}
            entries.append(json.dumps(entry))
    (output / "_spark_metadata" / "0").write_text("\n".join(entries))


def test_two_runs_of_a_side_are_told_as_one() -> None:
    run = {"rows": 10, "batches": 1, "seconds": 1.5, "cpu_s": 2.0, "memory_mb": 5, "mistaken": 1}
    both = [run | {"cpu_by_role": {"jvm": 2.0}},
            run | {"cpu_by_role": {"jvm": 1.5, "driver": 0.5}, "memory_mb": 7}]  # fmt: skip

    found = kafka_history.together(both)

    assert found["cpu_by_role"] == {"driver": 0.5, "jvm": 3.5}
    assert (found["rows"], found["seconds"], found["cpu_s"]) == (20, 3.0, 4.0)
    assert (found["memory_mb"], found["mistaken"], found["runs"]) == (7, 1, 2)


def test_no_side_of_the_history_is_always_first() -> None:
    first, second = kafka_history.order(1), kafka_history.order(2)

    together = [sides for sides in first if len(sides) == 2]
    assert sorted(together) == [("bare", "plain")] * 2 + [("plain", "bare")] * 2
    assert (first[2:4], second[2:4]) == ([("checked",), ("naive",)], [("naive",), ("checked",)])
    assert sorted(first) == sorted(second)
    assert first[0] != second[0]
    assert {side for sides in first for side in sides} == set(kafka_history.SIDES)


def test_a_history_that_lacks_a_row_or_has_a_bad_one_is_found(tmp_path: Path) -> None:
    given = kafka_history.Given(topic.Topics("", 0), 1_000, tuple(LINES[:1_000]))
    good = [line for line in given.lines if input_reader.log_of(line)]
    taken = [kafka_history.as_taken(line) for line in given.lines]
    for name, lines in {"right": good, "short": good[1:], "lenient": taken}.items():
        written(tmp_path / name, lines)

    assert kafka_history.check(tmp_path / "right", given, is_strict=True) == 0
    assert kafka_history.check(tmp_path / "lenient", given, is_strict=False) > 0
    for name in ("short", "lenient"):
        with pytest.raises(AssertionError, match="instead of"):
            kafka_history.check(tmp_path / name, given, is_strict=True)
