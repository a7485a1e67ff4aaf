"""The benchmarks' own arithmetic, and the page that shows it. Nothing is measured here."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

sys.path.append(str(Path(__file__).parent.parent))  # `bench` is a folder of the repository

from bench import __main__ as program
from bench import consumed, defaults, feed, figures, machine, overhead, page, sides

from headrace.driver import session

RUN = {"cpu_by_role": {"jvm": 9.0}, "memory_mb": 900, "batches": 10, "checked_rows": 1}


def run(rows: int, cpu_s: float, seconds: float = 10.0) -> dict[str, Any]:
    return {**RUN, "rows": rows, "cpu_s": cpu_s, "seconds": seconds}


def result(rounds: list[dict[str, Any]], **asked: Any) -> dict[str, Any]:
    facts = {
        "cores": 2, "cpu": "a CPU", "memory_gb": 24, "filesystem": "ext4", "system": "Linux 6",
        "python": "3.11", "java": "17", "pyspark": "4.2.0", "pyspark_pinned": "4.2.0",
    }  # fmt: skip
    asked = {"rounds": 3, "seconds": 60, "load": 0.1, "is_busy": False, **asked}
    when = {"at": "2026-01-01 00:00 UTC", "commit": "abc", "is_changed": False}
    return {**when, "machine": facts, "asked": asked, "rounds": rounds}


def overheads(*ratios: float) -> dict[str, Any]:
    pairs = [(run(int(1000 * ratio), 1.0), run(1000, 1.0)) for ratio in ratios]
    return result([{"round": n, "headrace": h, "bare": b} for n, (h, b) in enumerate(pairs, 1)])


def supervisor(cpu: list[float], memory: list[float], kind: str = "idle") -> dict[str, Any]:
    both = zip(cpu, memory, strict=True)
    one = {"kind": kind, "pipelines": 20}
    return result([{**one, "cpu_percent": c, "memory_mb": m} for c, m in both])


def questions(*ratios: float, question: str = "all") -> dict[str, Any]:
    one = {"round": 1, "question": question, "files": 10_000, "alone_s": 1.0, "command_s": 2.5}
    return result([{**one, "headrace_s": ratio} for ratio in ratios])


def demos(*percents: float) -> dict[str, Any]:
    one = {"start_s": 50.0, "seconds": 60.0, "cpu_s": 75.0, "memory_mb": 2000, "lines": 33_000}
    fresh = {"history": 9000, "logs.quarantine": 9000}
    rounds = [{**one, "cpu_percent_of_all": p, "fresh_p50_ms": fresh} for p in percents]
    return result(rounds)


def soak(web_mb: float, heap_mb: list[float]) -> dict[str, Any]:
    samples = [{"web_mb": web_mb, "heap_mb": {"overview": one}} for one in heap_mb]
    weights = {"overview": {"requests": 9, "kb": 60.0}}
    return result([{"round": 1, "weights": weights, "samples": samples}])


def exporters(*ratios: float) -> dict[str, Any]:
    on = [run(round(1000 * ratio), 1.0) for ratio in ratios]
    relay = {"cpu_by_role": {"jvm": 9.0, "relay": 0.5}}
    sides_ = [{"on": {**one, **relay}, "off": run(1000, 1.0)} for one in on]
    return result([{"round": n, **one} for n, one in enumerate(sides_, start=1)])


STEPS = {
    "pyspark": run(1000, 2.0), "partitions": run(1500, 2.0), "headrace": run(2000, 2.0),
}  # fmt: skip
RESULTS = {
    "overhead": overheads(0.97, 0.90, 0.99),
    "defaults": result([{"round": 1, "steps": STEPS}]),
    "supervisor": supervisor([1.0, 2.0], [40.0, 50.0]),
    "start": result([{"kind": "run", "seconds": s} for s in (9.0, 8.0, 12.0)]),
    "sql": questions(1.2, 1.1, 1.6),
    "demo": demos(61.0, 66.0, 64.0),
    "soak": soak(60.0, [4.0, 4.0, 4.0, 4.0]),
    "exporters": exporters(0.99, 1.01, 0.97),
}


# ---- figures


def test_the_ratio_is_the_median_of_ratios_within_rounds() -> None:
    # Round 2 was slow on both sides: across rounds the ratio would be another.
    rounds = [
        {"headrace": run(900, 1.0), "bare": run(1000, 1.0)},
        {"headrace": run(98, 1.0), "bare": run(100, 1.0)},
        {"headrace": run(2000, 2.0), "bare": run(1000, 1.0)},
    ]

    assert figures.overhead_ratios(rounds) == pytest.approx([0.9, 0.98, 1.0])
    assert figures.median(figures.overhead_ratios(rounds)) == pytest.approx(0.98)


def test_a_median_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no rounds"):
        figures.median([])


def test_steps_are_compared_only_in_rounds_that_have_both() -> None:
    rounds = [{"steps": {"a": run(100, 1.0), "b": run(300, 1.0)}}, {"steps": {"a": run(1, 1.0)}}]

    assert figures.step_ratios(rounds, "b", "a", figures.per_second) == pytest.approx([3.0])


@pytest.mark.parametrize(
    ("results", "met"),
    [
        ({"overhead": overheads(0.98, 0.97, 0.5)}, [True]),
        ({"overhead": overheads(0.98, 0.96, 0.5)}, [False]),
        ({"supervisor": supervisor([4.9], [149.9])}, [True, True]),
        ({"supervisor": supervisor([5.0], [150.0])}, [False, False]),
        ({"sql": questions(1.99, 1.5, 5.0)}, [True]),
        ({"sql": questions(2.0)}, [False]),
        ({"demo": demos(74.9)}, [True]),
        ({"demo": demos(75.0)}, [False]),
        ({"soak": soak(149.9, [9.0, 5.0, 5.0, 5.0, 6.0, 5.4, 6.0])}, [True, True]),
        ({"soak": soak(150.0, [9.0, 5.0, 5.0, 5.0, 6.0, 5.5, 6.0])}, [False, False]),
        ({"exporters": exporters(0.98, 0.99, 0.5)}, [True]),
        ({"exporters": exporters(0.97, 0.99, 0.5)}, [False]),
        ({}, []),
    ],
)
def test_targets_are_judged_at_their_bounds(results: dict[str, Any], met: list[bool]) -> None:
    assert [target.is_met(found) for target, found in figures.outcomes(results)] == met


def test_busy_pipelines_do_not_count_for_the_idle_target() -> None:
    rounds = supervisor([2.0], [40.0])["rounds"] + supervisor([9.0], [90.0], "busy")["rounds"]

    found = figures.outcomes({"supervisor": result(rounds)})

    assert [figure for _, figure in found] == [2.0, 40.0]


@pytest.mark.parametrize(
    ("value", "text"), [(123456.7, "123,457"), (149.94, "150"), (0.9512, "0.951"), (3.0, "3")]
)
def test_figures_are_shown_with_three_digits(value: float, text: str) -> None:
    assert figures.shown(value) == text


# ---- the page


def markers() -> str:
    parts = [f"<!-- begin: {n} -->\nold\n<!-- end: {n} -->" for n in page.NAMES]
    return "# Title\n\n" + "\n\nwords\n\n".join(parts) + "\n\nlast words\n"


def test_tables_are_put_between_their_markers_and_nothing_else_changes() -> None:
    made = page.rendered(markers(), RESULTS)

    assert "old" not in made
    assert made.count("words") == markers().count("words")
    assert "| **median** |  |  |  |  | **0.970** |" in made
    assert "(target: at least 0.97, met)" in made
    assert (
        "| + 8 shuffle partitions instead of 200 | 150 | 750 | 1.50x | 1.50x | 1.50x | 1 |" in made
    )
    assert "| 20 pipelines, idle | 1.5 % (1–2) | 50 MB |" in made
    assert "| 9.0 s | 12.0 s | 3 |" in made
    assert "| 1 | 99 | 100 | 3 | 0 | 0.990 |" in made
    assert "files | 1.20 s | 1.00 s | 1.20 (1.1–1.6) | 2.50 s | 3 |" in made


def test_making_the_page_twice_changes_nothing() -> None:
    once = page.rendered(markers(), RESULTS)

    assert page.rendered(once, RESULTS) == once


def test_what_was_not_measured_says_so() -> None:
    made = page.rendered(markers(), {})

    assert made.count("Not measured yet") == len(page.NAMES)


def test_a_missing_marker_is_named() -> None:
    with pytest.raises(ValueError, match="begin: defaults"):
        page.rendered(markers().replace("<!-- begin: defaults -->", ""), RESULTS)


def test_a_missed_target_a_busy_machine_and_another_spark_cannot_be_overlooked() -> None:
    found = copy.deepcopy(overheads(0.5))
    found["asked"]["is_busy"] = True
    found["machine"]["pyspark"] = "4.2.9"

    made = page.section("overhead", {"overhead": found})

    assert "**missed**" in made
    assert "busy" in made
    assert "4.2.9 **(not 4.2.0" in made


def test_the_page_is_what_the_results_say() -> None:
    results = program.read_results()
    text = program.PAGE.read_text()

    assert page.rendered(text, results) == text, "python -m bench --page"


def test_no_figure_stands_outside_the_markers() -> None:
    text = program.PAGE.read_text()
    typed = re.sub(r"<!-- begin: ([\w-]+) -->.*?<!-- end: \1 -->", "", text, flags=re.DOTALL)

    assert re.findall(r"records/s|\d(?:\.\d+)?x\b|\d\.\d", typed) == []


def test_results_name_no_machine_and_no_path() -> None:
    text = json.dumps(program.read_results())

    assert re.findall(r'"/\w+|file:/', text) == []


# ---- whether to measure at all


def test_figures_just_written_are_no_change_of_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / name for name in ("bench/results.json", "docs/page.md", "src/code.py")]
    for file in files:
        file.parent.mkdir()
        file.write_text("before")
    me = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (["init", "-q"], ["add", "."], [*me, "commit", "-qm", "begin"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    monkeypatch.setattr(machine, "REPO", tmp_path)
    changed = []
    for file in files:
        file.write_text("after")
        changed.append(machine.moment()["is_changed"])
    assert changed == [False, False, True]


def test_a_busy_machine_is_refused_unless_asked_for() -> None:
    assert "1.01" in str(program.unfit(1.01, is_forced=False, free_gb=99))
    assert program.unfit(1.01, is_forced=True, free_gb=99) is None
    assert program.unfit(1.0, is_forced=False, free_gb=99) is None


def test_a_full_disk_is_refused_always() -> None:
    assert "GB are needed" in str(program.unfit(0.0, is_forced=True, free_gb=3))


def test_an_unknown_benchmark_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        program.parsed(["overheat"])

    assert "overhead, defaults, supervisor, rules, start" in capsys.readouterr().err


def test_the_pinned_version_is_read_from_the_constraints() -> None:
    assert machine.pinned("pyspark", "pandas==2.2.3\npyspark==4.2.0\n") == "4.2.0"
    assert machine.pinned("pyspark", "# pyspark stays\n") == ""


# ---- the steps from PySpark's settings to ours


def test_the_last_step_has_all_of_our_settings_and_the_first_none(tmp_path: Path) -> None:
    ours = sides.our_settings(tmp_path)

    assert defaults.settings_of("pyspark", ours) == {}
    assert defaults.settings_of("headrace", ours) == ours


def test_each_step_adds_only_what_it_names(tmp_path: Path) -> None:
    ours = sides.our_settings(tmp_path)
    before: dict[str, str] = {}
    for step in defaults.STEPS[:-1]:
        found = defaults.settings_of(step.name, ours)
        assert set(found) - set(before) == set(step.keys or ())
        before = found


def test_an_unknown_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="partitions"):
        defaults.settings_of("nonsense", sides.our_settings(tmp_path))


def test_both_ends_are_in_every_round_and_go_first_in_turn() -> None:
    orders = [defaults.order(number) for number in range(1, 6)]

    assert all({"pyspark", "headrace"} <= set(names) for names in orders)
    assert {names[0] for names in orders} == {"pyspark", "headrace"}
    assert sum(len(names) == len(defaults.STEPS) for names in orders) == 3


def test_settings_are_read_back_without_those_that_differ_by_nature(tmp_path: Path) -> None:
    session.write_conf(tmp_path / "conf", sides.our_settings(tmp_path))

    found = sides.settings_in(tmp_path / "conf" / "spark-defaults.conf")

    assert found["spark.sql.shuffle.partitions"] == "8"
    assert "spark.sql.warehouse.dir" not in found


# ---- what was read, by the checkpoint's own logs


def entries(*numbers: int) -> str:
    lines = [{"path": f"file:///in/rows-{n:06d}-b00.json", "batchId": n} for n in numbers]
    return "\n".join(["v1", *map(json.dumps, lines)])


def checkpoint(folder: Path, **entries_by_name: str) -> Path:
    log = folder / "sources" / "0"
    log.mkdir(parents=True)
    for name, text in entries_by_name.items():
        (log / name.removeprefix("n").replace("_", ".")).write_text(text)
    return folder


def test_a_compact_entry_and_those_after_it_are_the_whole_log(tmp_path: Path) -> None:
    made = checkpoint(
        tmp_path, n0=entries(0), n1_compact=entries(0, 1), n2=entries(2), n3=entries(3)
    )

    read = consumed.files(made)

    assert [one.entry for one in read] == [0, 1, 2, 3]
    assert consumed.between(read, 0, 2) == ["/in/rows-000001-b00.json", "/in/rows-000002-b00.json"]


def test_a_gap_in_the_source_log_is_an_error(tmp_path: Path) -> None:
    made = checkpoint(tmp_path, n0=entries(0), n2=entries(2))

    with pytest.raises(ValueError, match="gaps"):
        consumed.files(made)


def test_a_batch_names_its_entry_of_the_source_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text('v1\n{"batchWatermarkMs":0}\n{"logOffset":6}')

    assert consumed.entry_of(tmp_path, 7) == 6


# ---- the input


def test_the_feed_knows_what_every_file_holds(tmp_path: Path) -> None:
    made = feed.make(tmp_path, files=20, rows_per_file=50)
    names = sorted(str(path) for path in made.folder.iterdir())
    rows = [json.loads(line) for name in names for line in Path(name).read_text().splitlines()]

    counts = Counter((row["at"][:16], row["key"]) for row in rows)

    assert len(names) == 20
    assert made.rows(names) == len(rows) == 1000
    assert made.amount(names) == sum(row["amount"] for row in rows)
    assert sorted(made.counts(names).values()) == sorted(counts.values())
    assert {row["at"][:10] for row in rows} == {"2026-03-01", "2026-03-02"}


def test_more_files_than_can_be_listed_cheaply_are_refused() -> None:
    with pytest.raises(ValueError, match="ask for less"):
        feed.files_for(3600, 300_000, 25_000, most=10_000)


# ---- the checks of the answers can fail


def one_batch(folder: Path, given: feed.Feed) -> sides.Running:
    """A query that has read two files in batch 0."""
    paths = sorted(given.folder.iterdir())[:2]
    lines = [json.dumps({"path": path.as_uri(), "batchId": 0}) for path in paths]
    made = checkpoint(folder / "checkpoint", n0="\n".join(["v1", *lines]))
    (made / "offsets").mkdir()
    (made / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}')
    return sides.Running(1, made, folder / "output", folder / "conf", lambda: "")


def committed(output: Path, amounts: list[int]) -> None:
    (output / "_spark_metadata").mkdir(parents=True)
    file = output / "part-0.parquet"
    parquet.write_table(pa.table({"amount": amounts}), file)
    entry = {"path": file.as_uri(), "size": file.stat().st_size, "action": "add"}
    (output / "_spark_metadata" / "0").write_text(f"v1\n{json.dumps(entry)}")


@pytest.mark.parametrize(("lost", "error"), [(0, None), (1, "are committed")])
def test_rows_that_are_read_but_not_committed_are_found(
    tmp_path: Path, lost: int, error: str | None
) -> None:
    given = feed.make(tmp_path / "feed", files=4, rows_per_file=20)
    running = one_batch(tmp_path, given)
    texts = [path.read_text() for path in sorted(given.folder.iterdir())[:2]]
    amounts = [json.loads(line)["amount"] for text in texts for line in text.splitlines()]
    committed(running.output, amounts[lost:])

    if error is None:
        assert overhead.check(running, given) == 40
    else:
        with pytest.raises(AssertionError, match=error):
            overhead.check(running, given)


@pytest.mark.parametrize(("more", "error"), [(0, None), (1, "1 of .* counts are wrong")])
def test_a_wrong_count_is_found(tmp_path: Path, more: int, error: str | None) -> None:
    given = feed.make(tmp_path / "feed", files=4, rows_per_file=20)
    running = one_batch(tmp_path, given)
    truth = given.counts(str(path) for path in sorted(given.folder.iterdir())[:2])
    counts = [[start, key, count] for (start, key), count in truth.items()]
    counts[0][2] += more
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"batch": 0, "counts": counts}))

    if error is None:
        assert defaults.check(running, given, answer) == 40
    else:
        with pytest.raises(AssertionError, match=error):
            defaults.check(running, given, answer)
