"""Every guide's pipeline is run on the guide's own samples, and gives the rows that it promises.

Where the answer depends on event time alone, the same definition is also run in batch over the same
files: what the stream has written so far must be a part of that answer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from guidebook import END_S, Guide, rows

from headrace.checkpoints import checkpoint_content, identity
from headrace.define import listeners, loader
from headrace.driver import exit_report, plan_analysis
from headrace.driver.build import PlannedQuery
from headrace.driver.events import EventsFile
from headrace.driver.running_queries import Queries, RunningQuery
from headrace.errors import CheckpointError, DefinitionError
from test_docs import DOCS

pytestmark = pytest.mark.spark

Open = Callable[..., Guide]


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark hands timestamps to Python in the process's own time zone."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_sessions_are_written_when_the_watermark_has_passed_them(guide: Open) -> None:
    visits = guide("session-windows")
    visits.feed(visits.samples[0])
    visits.drain()
    closed = [("ada", "10:00", "10:18", 2), ("bob", "10:02", "10:12", 1)]
    assert visits.written("data/visits") == closed

    visits.feed('{"user": "eve", "at": "2026-01-01T10:41:00Z", "page": "home"}')
    visits.drain()

    closed = sorted([*closed, ("ada", "10:25", "10:35", 1)])
    assert visits.written("data/visits") == closed
    assert visits.in_batch("visits") == [*closed, ("eve", "10:41", "10:51", 1)]


def test_an_order_is_unpaid_when_event_time_says_so(guide: Open) -> None:
    unpaid = guide("timeouts-event-time")
    unpaid.feed(unpaid.samples[0])
    unpaid.drain()
    assert unpaid.written("data/unpaid") == []

    unpaid.feed(unpaid.samples[1])
    unpaid.drain()

    assert unpaid.written("data/unpaid") == [("a1", "10:00", "10:30")]
    assert unpaid.in_batch("unpaid") == []  # as the guide says: no timers in batch


def test_a_silent_device_is_told_by_the_clock_and_again_when_it_is_back(guide: Open) -> None:
    silent = guide("timeouts-processing-time", change=("SILENT_MS = 60_000", "SILENT_MS = 1_000"))
    silent.feed(silent.samples[0])
    query = silent.start(silent.build().planned[0], {"processingTime": "300 milliseconds"})
    gone = [("fan", True, 0), ("pump", True, 0)]
    until(lambda: silent.written("data/silent"), gone, query)

    silent.feed(silent.samples[1])

    until(lambda: silent.written("data/silent"), [("fan", False, 1), *gone], query)


def until(look: Callable[[], Any], wanted: Any, query: Any) -> None:
    deadline = time.monotonic() + END_S
    seen = None
    while time.monotonic() < deadline and query.isActive:
        try:
            seen = look()
        except Exception as exc:  # the folder is not there before the first batch
            seen = exc
        if seen == wanted:
            return
        time.sleep(0.3)
    pytest.fail(f"wanted {wanted}, saw {seen}; {query.exception()}")


def test_each_payment_is_written_once(guide: Open) -> None:
    payments = guide("deduplication")
    for sample in payments.samples:
        payments.feed(sample)
        payments.drain()

    assert payments.written("data/payments", "id", "amount") == [
        ("p1", 10.0),
        ("p2", 20.0),
        ("p3", 30.0),
    ]


def test_ads_are_joined_with_their_clicks_and_their_prices(guide: Open) -> None:
    ads = guide("joins", "shown", "clicks")
    (ads.folder / "prices.csv").write_text("campaign,cents\nspring,12\n")
    shown, clicks = ads.samples
    ads.feed(shown, "shown")
    ads.feed(clicks, "clicks")
    ads.drain()
    assert ads.written("data/answered") == [("a", "10:00", "10:04")]
    assert ads.written("data/priced") == [("a", "spring", 12), ("b", "autumn", None)]

    ads.feed('{"ad": "c", "shown_at": "2026-01-01T10:20:00Z", "campaign": "spring"}', "shown")
    ads.feed('{"ad": "z", "clicked_at": "2026-01-01T10:31:00Z"}', "clicks")
    ads.drain()

    answered = [("a", "10:00", "10:04"), ("b", "10:01", None)]
    assert ads.written("data/answered") == answered
    assert ads.in_batch("answered") == [*answered, ("c", "10:20", None)]
    assert ads.in_batch("priced") == ads.written("data/priced")


def test_a_listener_writes_what_its_page_shows(guide: Open) -> None:
    orders = guide("listeners")
    orders.feed(orders.samples[0])
    loaded = loader.load(orders.pipeline, orders.folder, orders.folder)
    found, problems = listeners.declared(loaded.collector)
    assert problems == []
    queries = Queries(spark=None, events=EventsFile(orders.folder / "events.jsonl"))
    queries.user_listeners.create(found, loaded.collector, orders.spark)
    queries.attach(orders.spark)

    orders.drain()

    (shown,) = [block.text for block in orders.blocks if block.note == "expected"]
    path = orders.folder / "batches.jsonl"
    deadline = time.monotonic() + END_S
    while (not path.exists() or "failed" not in path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    queries.user_listeners.close()
    assert path.read_text() == shown


def test_an_own_aggregate_goes_on_where_the_last_batch_ended(guide: Open) -> None:
    smooth = guide("own-aggregate")
    for sample in smooth.samples[1:]:
        smooth.feed(sample)
        smooth.drain()

    wanted = [
        ("in", "10:00", 20.0, 1),
        ("in", "10:01", 21.0, 2),
        ("in", "10:02", 23.0, 3),
        ("out", "10:00:30", 4.0, 1),
    ]
    assert smooth.written("data/smooth") == wanted
    assert smooth.in_batch("smooth") == wanted


def test_a_grouped_pandas_aggregate_is_refused_as_the_guide_says(guide: Open) -> None:
    smooth = guide("own-aggregate")
    shown, words, *_ = [b for b in smooth.blocks if not b.file and b.language != "bash"]
    function, query = shown.text.split("\n\n")
    (smooth.folder / "smooth.py").write_text(
        "import headrace as hr, pandas as pd\nfrom pyspark.sql import functions as F\n"
        "readings_ = lambda: hr.json('incoming', schema='sensor string, value double')\n"
        f"hr.source(name='readings')(readings_)\n{function}\n"
        f"@hr.stream(to=hr.memory(), mode='update')\ndef smooth(readings):\n    return {query}"
    )

    with pytest.raises(DefinitionError, match=re.escape(words.text.strip())):
        smooth.build()


def test_a_model_is_loaded_once_per_worker_and_scores(guide: Open, spark: Any) -> None:
    fraud = guide("model-scoring")
    subprocess.run([sys.executable, "train.py"], check=True)
    spark.sparkContext.environment["PYTHONPATH"] = str(fraud.folder)  # as a driver's session has it
    for sample in (fraud.samples[0], fraud.samples[0].replace('"p', '"q')):
        fraud.feed(sample)
        fraud.drain()
    seen = {p: loads for p, loads in _loads_by_worker(spark, fraud) if loads}
    del spark.sparkContext.environment["PYTHONPATH"]

    risks = dict(fraud.written("data/risks"))
    assert [id for id, risk in risks.items() if risk > 0.9] == ["p1", "q1"]
    assert [id for id, risk in risks.items() if risk < 0.1] == ["p2", "p3", "q2", "q3"]
    assert set(seen.values()) == {1}


def _loads_by_worker(spark: Any, fraud: Guide) -> list[tuple[int, int]]:
    """Asked of the same worker processes that scored."""

    def ask(batches: Any) -> Any:
        import pandas as pd
        from scoring import model

        for _ in batches:
            yield pd.DataFrame({"pid": [os.getpid()], "loads": [model.cache_info().misses]})

    asked = spark.range(8).repartition(4).mapInPandas(ask, "pid long, loads long")
    return [tuple(row) for row in asked.collect()]


def test_sql_text_counts_with_an_own_function(guide: Open) -> None:
    domains = guide("sql")
    domains.feed(domains.samples[0])
    domains.drain()

    wanted = [("10:00", "example.com", 2), ("10:00", "example.org", 1)]
    assert domains.written("data/domains") == wanted
    assert domains.in_batch("domains") == [*wanted, ("10:02", "example.com", 1)]


def test_several_sources_become_one(guide: Open) -> None:
    sales = guide("several-sources", "shops", "web")
    shops, web = sales.samples
    sales.feed(shops, "shops", "csv")
    sales.feed(web, "web")
    sales.drain()

    assert sales.written("data/sales", "channel", "shop", "country", "cents") == [
        ("shop", "harbour", None, 100),
        ("shop", "harbour", None, 250),
        ("web", None, "NZ", 1),
        ("web", None, "NZ", 999),
    ]
    assert sales.written("data/per_hour") == [("10:00", 1249)]
    assert sales.in_batch("per_hour") == [("10:00", 1249), ("11:00", 101)]


def test_a_batch_that_comes_again_changes_nothing(guide: Open) -> None:
    import sqlite3

    meter = guide("each-batch")

    def seen() -> tuple[Any, Any]:
        with sqlite3.connect(meter.folder / "data/minutes.db") as conn:
            minutes = conn.execute("SELECT minute, watts FROM minutes ORDER BY 1").fetchall()
        conn.close()
        return meter.written("data/readings", "batch", "watts", format="json"), minutes

    written = []
    for sample in meter.samples:
        meter.feed(sample)
        for one in meter.build().planned:  # each batch is written, and killed before its commit
            written.append(one.query.name)
            with pytest.raises(Exception, match="killed"):
                meter.end(meter.start(killed_after_writing(one), {"availableNow": True}))
        before = seen()
        meter.drain()
        assert seen() == before

    first = seen()
    assert first == (
        [(0, 100), (0, 300), (1, 400), (1, 50)],
        [("2026-01-01T10:00:00", 400), ("2026-01-01T10:01:00", 50)],
    )
    assert written == ["kept", "minutes"] * 2
    assert not list((meter.folder / "data/readings").glob(".*"))


def killed_after_writing(one: PlannedQuery) -> PlannedQuery:
    function = one.sink.function  # type: ignore[attr-defined]

    def write_and_die(df: Any, batch_id: int) -> None:
        function(df, batch_id)
        raise RuntimeError("killed")

    return replace(one, sink=replace(one.sink, function=write_and_die))  # type: ignore[call-arg]


def test_files_go_in_one_a_batch_and_come_out_by_day(guide: Open) -> None:
    stock = guide("files")
    for sample in stock.samples:
        stock.feed(sample, suffix="csv")

    batches = stock.drain()

    assert batches["kept"] == 2
    assert sorted(p.name for p in (stock.folder / "data/moves").iterdir()) == [
        "_spark_metadata",
        "day=2026-01-01",
        "day=2026-01-02",
    ]
    moves = [("bolt", 500, "10:00"), ("nut", 100, "11:00"), ("nut", 7, "10:00")]
    assert stock.written("data/moves", "item", "pieces", "at") == moves
    assert stock.written("data/large", "item", "pieces", format="json") == [
        ("bolt", 500),
        ("nut", 100),
    ]
    assert stock.in_batch("large") == [
        (item, pieces, day) for item, pieces, day in stock.in_batch("large") if pieces >= 100
    ]


def test_a_file_is_read_by_the_schema_of_its_folder(guide: Open, spark: Any) -> None:
    stock = guide("files")
    stock.feed(
        '{"item": "a"}\n{"item": "b", "pieces": 1, "more": 2}\n{"item": "c", "pieces": "x"}\nno\n'
    )
    stock.feed("pieces,item\n7,d\n", suffix="csv")
    schema = "item string, pieces int"

    as_json = spark.read.schema(schema).json(str(stock.folder / "incoming/*.json"))
    as_csv = spark.read.schema(schema).csv(str(stock.folder / "incoming/*.csv"), header=True)

    assert rows(as_json) == [("a", None), ("b", 1), ("c", None), (None, None)]
    assert rows(as_csv) == [("7", None)]


def test_a_poison_row_is_a_data_failure_and_its_batch_waits_whole(guide: Open) -> None:
    weights = guide("failures")
    good, poison, words = weights.samples
    weights.feed(good)
    weights.drain()
    weights.feed(poison)
    one = weights.build().planned[0]
    query = weights.start(one, {"availableNow": True})

    with pytest.raises(Exception, match="12 stone"):
        weights.end(query)

    ended = exit_report.from_failed_query(
        RunningQuery("weights", query, one.query.checkpoint), None, None, weights.folder
    )
    assert (ended.kind, ended.failure, ended.batch) == ("data", "python-function-failed", 1)
    assert (ended.error or {})["what"] == words.strip()
    assert weights.written("data/weights") == [(1, 2.5)]

    (weights.folder / "incoming/2.json").write_text(poison.replace("12 stone", "76 kg"))
    weights.drain()
    assert weights.written("data/weights") == [(1, 2.5), (2, 1.0), (3, 76.0)]


def test_a_checkpoint_is_refused_and_its_way_out_works(guide: Open) -> None:
    gate = guide("checkpoints")
    gate.feed('{"at": "2026-01-01T10:00:00Z", "gate": "north"}')
    gate.drain()
    checkpoint = gate.folder / "checkpoints/gate/kept/v1"
    found = checkpoint_content.read(checkpoint)
    mine = identity.Identity("gate", "kept", gate.folder.name, found.query_id, 1)
    identity.write(checkpoint, mine)

    def refusal(query: str = "kept") -> CheckpointError | None:
        known, now = identity.read(checkpoint), checkpoint_content.read(checkpoint)
        return identity.verify(known, now, "gate", query, gate.folder.name)

    assert refusal() is None
    assert slug(refusal("renamed")) == "checkpoint-foreign"

    (checkpoint / "metadata").unlink()
    lost = refusal()
    assert slug(lost) == "checkpoint-metadata-lost"
    subprocess.run(["bash", "-eu"], input=(lost and lost.fix) or "", text=True, check=True)
    assert refusal() is None

    gate.feed('{"at": "2026-01-01T10:01:00Z", "gate": "south"}')
    gate.drain()
    assert gate.written("data/passes", "gate") == [("north",), ("south",)]


def slug(error: CheckpointError | None) -> str | None:
    return error.code if error else None


def test_the_table_of_output_modes_is_what_spark_says(guide: Open, spark: Any) -> None:
    modes = guide("triggers-and-modes", "incoming", "replies")
    page = Path(DOCS / "guides/triggers-and-modes.md").read_text()
    table = re.findall(r"^\| `(\w+)`.*?\| (yes|–) \| (yes|–) \| (yes|–) \|$", page, re.MULTILINE)
    shown = {name: [cell == "yes" for cell in cells] for name, *cells in table}

    real = {
        p.query.name: [why is None for why in plan_analysis.output_modes(spark, p.frame).values()]
        for p in modes.build().planned
    }

    assert len(real) == 9
    assert shown == real
