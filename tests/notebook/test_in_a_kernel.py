"""Displays in a real kernel, as a page uses it: in place, button, interrupts, cells run again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from living import Kernel, Ran

import gone

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

SESSION = """
import time
import headrace as hr
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.sql.shuffle.partitions", "2").getOrCreate())
spark.sparkContext.setLogLevel("FATAL")
rate = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
"""
ACTIVE = "[q.name for q in spark.streams.active]"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    made = Kernel(tmp_path_factory.mktemp("kernel"))
    try:
        made.run(SESSION)
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def quiet(kernel: Kernel) -> Iterator[None]:
    yield
    if kernel.is_open:
        assert kernel.run(ACTIVE).result == "[]"


def shown(kernel: Kernel, ran: Ran) -> str:
    """All that a display of this run shows now, as one page."""
    return "".join(kernel.outputs[key].get("text/html", "") for key in ran.shown)


def test_a_display_changes_in_place_while_the_kernel_is_idle_and_ends_by_its_button(
    kernel: Kernel,
) -> None:
    ran = kernel.run("d = hr.display(rate, title='Rate', every='200ms')\nd")
    kernel.poll(lambda: "<td" in shown(kernel, ran), "no rows")
    first = shown(kernel, ran)
    kernel.poll(lambda: shown(kernel, ran).count("<tr") > first.count("<tr"), "no more rows")

    head, button, _, foot = (kernel.outputs[key] for key in ran.shown)
    assert ran.result == ""  # the display itself is not shown a second time
    assert "Rate" in head["text/html"]
    assert "rows/s" in foot["text/html"]
    widget = button["application/vnd.jupyter.widget-view+json"]
    kernel.click(widget["model_id"])
    kernel.poll(lambda: "Stopped" in shown(kernel, ran), "the button does nothing")
    empty = {"text/html": "", "text/plain": ""}
    kernel.poll(lambda: kernel.outputs[ran.shown[1]] == empty, "a dead button stays")
    assert "<td" in shown(kernel, ran)


@pytest.mark.parametrize("cell", ["cell-1", None], ids=["with an id", "by its text"])
def test_running_a_cell_again_replaces_its_display(kernel: Kernel, cell: str | None) -> None:
    code = "d = hr.display(rate, every='200ms')"
    before = kernel.run(code, cell)
    first = kernel.run("d.query.name").result

    again = kernel.run(code, cell)

    assert kernel.run("d.query.name").result != first
    assert kernel.run(f"len({ACTIVE})").result == "1"
    assert "Replaced" in shown(kernel, before)
    assert "Replaced" not in shown(kernel, again)
    kernel.run("d.stop()")


def test_an_edited_cell_ends_what_it_showed_before(kernel: Kernel) -> None:
    kernel.run("d = hr.display(rate)", "edited")

    assert kernel.run(ACTIVE, "edited").result == "[]"


def test_an_interrupt_of_a_busy_kernel_stops_cell_and_display(kernel: Kernel) -> None:
    ran = kernel.run("d = hr.display(rate, every='200ms')")
    kernel.poll(lambda: "<td" in shown(kernel, ran), "no rows")
    busy = kernel.begin("open('busy', 'w').close()\ntime.sleep(300)")
    kernel.poll(lambda: Path(f"/proc/{kernel.pid}/cwd/busy").exists(), "it does not begin")

    kernel.interrupt()

    assert kernel.end(busy).error.startswith("KeyboardInterrupt")
    kernel.poll(lambda: "Stopped by an interrupt" in shown(kernel, ran), "it goes on")
    assert kernel.run("d.is_running").result == "False"


def test_an_interrupt_of_an_idle_kernel_stops_displays_and_not_the_kernel(kernel: Kernel) -> None:
    ran = kernel.run("d = hr.display(rate, every='200ms')")
    kernel.run("1")  # the handler has to outlive the next cell
    kernel.poll(lambda: "<td" in shown(kernel, ran), "no rows")

    kernel.interrupt()

    kernel.poll(lambda: "Stopped by an interrupt" in shown(kernel, ran), "it goes on")
    assert kernel.run("1 + 1").result == "2"
    kernel.run("d = hr.display(rate, every='200ms').stop()")  # and the next one is not stopped


def test_a_failure_is_shown_in_words_with_its_trace_folded(kernel: Kernel) -> None:
    ran = kernel.run(
        "from pyspark.sql.functions import udf\n"
        "bad = udf(lambda v: int('<script>x</script>'), 'int')\n"
        "d = hr.display(rate.select(bad('value')), every='200ms')"
    )
    kernel.poll(lambda: "Full trace" in shown(kernel, ran), "no failure is shown")

    page = shown(kernel, ran)
    assert "<b>fix:</b>" in page
    assert "<details><summary>Full trace</summary><pre>" in page
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_session_that_ends_takes_its_displays_along_and_a_new_one_has_new_ones(
    kernel: Kernel,
) -> None:
    ran = kernel.run("d = hr.display(rate, every='200ms')")
    kernel.run("spark.stop()")

    kernel.poll(lambda: "●" in shown(kernel, ran) and not_waiting(shown(kernel, ran)), "it goes on")
    assert kernel.run("d.is_running").result == "False"
    kernel.run(SESSION)
    kernel.run("d = hr.display(rate, every='200ms').stop()")


def test_a_session_without_the_kafka_connector_says_the_line_that_starts_one_with_it(
    kernel: Kernel,
) -> None:
    reading = "hr.read(spark, hr.kafka('127.0.0.1:9', subscribe='orders'), stream=True).columns[:2]"
    writing = "hr.write(spark.sql('SELECT string(1) AS value'), hr.kafka('127.0.0.1:9', topic='x'))"
    fix = "spark.stop(); spark = hr.session()"
    for code in (reading, writing, "hr.session()"):
        refused = kernel.end(kernel.begin(code)).error
        assert refused.startswith("SetupError: "), refused
        assert "without the" in refused
        assert f"fix: {fix}" in refused

    kernel.run(fix)

    assert kernel.run(reading).result == "['key', 'value']"
    assert kernel.run("hr.session() is spark").result == "True"
    assert kernel.run("spark.conf.get('spark.sql.session.timeZone')").result == "'UTC'"
    kernel.run("rate = spark.readStream.format('rate').option('rowsPerSecond', 5).load()")


def test_the_extension_brings_a_cell_of_sql_and_a_display_for_streams(kernel: Kernel) -> None:
    kernel.run("%load_ext headrace\nrate.createOrReplaceTempView('rate')")

    asked = kernel.run("%%sql title=Asked every=200ms\nSELECT value FROM rate")
    kernel.poll(lambda: "<td" in shown(kernel, asked), "no rows of SQL")
    kernel.run("_.stop()")
    assert "Asked" in shown(kernel, asked)

    live = kernel.run("d = display(rate, every='200ms')")
    kernel.poll(lambda: "<td" in shown(kernel, live), "no rows of a stream")
    kernel.run("d.stop()")

    kernel.run("handle = display({'plain': 1}, display_id='plain')")
    assert kernel.outputs["plain"]["text/plain"] == "{'plain': 1}"
    assert kernel.run("%%sql\nCREATE OR REPLACE TEMP VIEW one AS SELECT 1 AS n").shown == []
    kernel.run("%unload_ext headrace")
    assert "IPython" in kernel.run("display.__module__").result


def not_waiting(page: str) -> bool:
    return 'title="waiting"' not in page and 'title="running"' not in page


def test_without_ipywidgets_the_head_says_how_to_stop(kernel: Kernel) -> None:
    kernel.run("import sys; kept = sys.modules.pop('ipywidgets'); sys.modules['ipywidgets'] = None")
    try:
        ran = kernel.run("d = hr.display(rate, every='200ms')")
        assert "call .stop() on the returned display" in shown(kernel, ran)
        kernel.run("d.stop()")
        assert "call .stop()" not in shown(kernel, ran)
    finally:
        kernel.run("sys.modules['ipywidgets'] = kept")


def test_the_end_of_the_kernel_leaves_no_query_folder_or_process(kernel: Kernel) -> None:
    """The last one here: the others' kernel is ended."""
    before = folders(kernel)
    ran = kernel.run("d = hr.display(rate, every='200ms')")
    kernel.poll(lambda: "<td" in shown(kernel, ran), "no rows")
    processes = kernel.children()
    assert any("java" in one.name() for one in processes)
    assert len(folders(kernel) - before) == 1

    kernel.close()

    assert gone.alive_at_last(processes) == []
    assert folders(kernel) - before == set()


def folders(kernel: Kernel) -> set[Path]:
    return set(kernel.temporary.glob("headrace-display-*"))
