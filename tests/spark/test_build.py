"""Building a pipeline with a real session: what comes out, and every way in which it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building import built, drained, problems

from headrace import config
from headrace.define import graph, loader
from headrace.driver.build import build

pytestmark = pytest.mark.spark

TOML = """
[sources.events]
kind = "json"
path = "incoming"
schema = "at timestamp, user string, amount double"
[sources.customers]
kind = "csv"
path = "customers.csv"
schema = "user string, country string"
table = true
options = { header = true }
[sinks.out]
kind = "parquet"
path = "data/out"
"""
ROWS = [
    {"at": "2026-01-01T00:00:10Z", "user": "ada", "amount": 1.5},
    {"at": "2026-01-01T00:00:20Z", "user": "bob", "amount": 2.0},
    {"at": "2026-01-01T00:01:20Z", "user": "ada", "amount": 4.0},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "incoming" / "one.json").write_text("\n".join(json.dumps(r) for r in ROWS))
    (tmp_path / "customers.csv").write_text("user,country\nada,UK\nbob,US\n")
    (tmp_path / "headrace.toml").write_text(TOML)
    return tmp_path


def test_a_query_over_a_source_a_table_and_a_view_writes_its_rows(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        @hr.view
        def located(events, customers):
            return events.join(F.broadcast(customers), "user")

        @hr.stream(to="out")
        def orders(located):
            return located.where("amount > 1.6").select("user", "country", "amount")
        """,
    )

    drained(spark, result)

    rows = spark.read.parquet(str(folder / "data/out")).orderBy("amount").collect()
    assert [tuple(r) for r in rows] == [("bob", "US", 2.0), ("ada", "UK", 4.0)]
    query = result.planned[0].query
    assert (query.guarantee, query.mode) == ("exactly-once", "append")
    assert query.checkpoint == str(folder / "checkpoints/orders/orders/v1")
    assert query.trigger == {"kind": "every", "seconds": 1.0}
    assert query.place == "orders.py:9"
    assert {n.name: n.inputs for n in result.nodes}["located"] == ("events", "customers")


def test_sql_text_reads_the_same_names_and_the_users_functions(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        @hr.udf
        def doubled(x: float) -> float:
            return x * 2

        @hr.view
        def big():
            return "SELECT user, doubled(amount) AS amount FROM events WHERE amount > 1.6"

        @hr.stream(to="out")
        def orders():
            return (
                "WITH mine AS (SELECT * FROM big) "
                "SELECT m.user, country, amount FROM mine m JOIN customers c ON m.user = c.user"
            )
        """,
    )

    drained(spark, result)

    rows = spark.read.parquet(str(folder / "data/out")).orderBy("amount").collect()
    assert [tuple(r) for r in rows] == [("bob", "US", 4.0), ("ada", "UK", 8.0)]
    assert result.planned[0].query.inputs == ("big", "customers")


def test_a_streams_committed_output_is_the_input_of_another(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        @hr.stream(to=hr.parquet("data/totals"), mode="append")
        def totals(tenfold):
            return tenfold

        @hr.view
        def tenfold(orders):
            return orders.select("user", (F.col("amount") * 10).alias("tenfold"))

        @hr.stream(to="out")
        def orders(events):
            return events.select("user", "amount")
        """,
    )

    assert [(p.query.name, p.after) for p in result.planned] == [
        ("orders", ()),
        ("totals", ("orders",)),
    ]
    assert (folder / "data/out/_spark_metadata").is_dir()
    drained(spark, result)

    rows = spark.read.parquet(str(folder / "data/totals")).orderBy("tenfold").collect()
    assert [tuple(r) for r in rows] == [("ada", 15.0), ("bob", 20.0), ("ada", 40.0)]


def test_definition_mode_makes_no_folder_in_the_project(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        @hr.stream(to="out")
        def orders(events):
            return events

        @hr.stream(to=hr.console())
        def shown(orders):
            return orders
        """,
        prepare=False,
    )

    assert not (folder / "data").exists()
    shown = result.planned[1].query.fingerprint
    assert shown["sources"] == [{"kind": "parquet", "path": str(folder / "data/out")}]


def test_a_batch_run_gives_the_same_answer_as_the_stream(spark: Any, folder: Path) -> None:
    code = """
    @hr.stream(to=hr.text("data/lines"))
    def lines(events):
        return events.select(F.concat_ws("-", "user", "amount").alias("line"))

    @hr.stream(to="out")
    def parts(lines):
        return lines.select(F.split("value", "-")[0].alias("user"))
    """
    drained(spark, built(spark, folder, code))

    batch = built(spark, folder, code, streaming=False)

    streamed = sorted(spark.read.parquet(str(folder / "data/out")).collect())
    assert sorted(batch.planned[1].frame.collect()) == streamed
    assert len(streamed) == 3


def test_problems_of_all_queries_come_at_once_with_their_lines(spark: Any, folder: Path) -> None:
    found = problems(
        spark,
        folder,
        """
        @hr.view
        def broken(events):
            return events.select("usr")

        @hr.stream(to="out")
        def first(broken):
            return broken

        @hr.stream(to=hr.console())
        def second(broken):
            return broken

        @hr.stream(to=hr.console())
        def forgot(events):
            events.select("user")

        @hr.stream(to=hr.console())
        def static(customers):
            return customers

        @hr.stream(to=hr.console())
        def raised(events):
            return events.select(1 / 0)

        @hr.stream(to=hr.console())
        def listed(events):
            return [events]
        """,
    )

    assert [(p.code, p.where) for p in found] == [
        ("analysis-error", "orders.py:6"),
        ("not-a-dataframe", "orders.py:17"),
        ("not-streaming", "orders.py:21"),
        ("definition-raised", "orders.py:26"),
        ("not-a-dataframe", "orders.py:29"),
    ]
    assert "Did you mean 'user'?" in str(found[0].fix)
    assert "ZeroDivisionError" in found[3].what


def test_an_unknown_name_in_sql_is_suggested(spark: Any, folder: Path) -> None:
    (found,) = problems(
        spark,
        folder,
        """
        @hr.stream(to="out")
        def orders():
            return "SELECT user FROM evnts"
        """,
    )

    assert (found.code, found.fix) == ("unknown-input", "Did you mean 'events'?")
    assert found.where == "orders.py:5"


def test_a_circle_through_sql_text_is_found(spark: Any, folder: Path) -> None:
    (found,) = problems(
        spark,
        folder,
        """
        @hr.view
        def a():
            return "SELECT * FROM b"

        @hr.view
        def b(a):
            return a

        @hr.stream(to="out")
        def orders(b):
            return b
        """,
    )

    assert found.code == "cycle"


@pytest.mark.parametrize(
    ("sink", "mode", "code", "fix"),
    [
        ('"out"', "append", 'groupBy("user").count()', "Add a watermark"),
        ("hr.console()", "append", 'groupBy("user").count()', "update, complete"),
        ('"out"', "update", 'select("user")', 'Use mode="append".'),
        ("hr.console()", "complete", 'select("user")', "append, update"),
    ],
)
def test_an_impossible_mode_is_refused_with_those_that_work(
    spark: Any, folder: Path, sink: str, mode: str, code: str, fix: str
) -> None:
    text = f'@hr.stream(to={sink}, mode="{mode}")\ndef orders(events):\n    return events.{code}\n'

    (found,) = problems(spark, folder, text)

    assert found.code == "unsupported-mode"
    assert fix in str(found.fix)
    assert found.why


BOUNDED = [
    'withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute"), "user").count()',
    'withWatermark("at", "1 minute").dropDuplicates(["user", "at"])',
    'withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["user"])',
    'withWatermark("at", "1 minute").groupBy(F.session_window("at", "1 minute")).count()',
    "groupBy().count()",
    'select("user")',
    """withWatermark("at", "1 minute").alias("l").join(
        events.withWatermark("at", "1 minute").alias("r"),
        F.expr("l.user = r.user AND r.at BETWEEN l.at AND l.at + INTERVAL 1 MINUTE")
    ).select("l.user")""",
]
UNBOUNDED = [
    'groupBy("user").count()',
    'withWatermark("at", "1 minute").groupBy("user").count()',
    'withWatermark("at", "1 minute").groupBy(F.to_date("at")).count()',
    'withWatermark("at", "1 minute").dropDuplicates(["user"])',
    "distinct()",
    """alias("l").join(events.alias("r"), F.expr("l.user = r.user")).select("l.user")""",
    """withWatermark("at", "1 minute").alias("l").join(
        events.withWatermark("at", "1 minute").alias("r"),
        F.expr("l.user = r.user AND r.at >= l.at")
    ).select("l.user")""",
]


@pytest.mark.parametrize(
    ("code", "warns"), [(c, False) for c in BOUNDED] + [(c, True) for c in UNBOUNDED]
)
def test_state_that_never_shrinks_is_a_warning(
    spark: Any, folder: Path, code: str, warns: bool
) -> None:
    mode = "append" if "join" in code or "session" in code else "update"
    text = f'@hr.stream(to=hr.console(), mode="{mode}")\ndef q(events):\n    return events.{code}\n'

    result = built(spark, folder, text)

    assert [w["slug"] for w in result.warnings] == (["unbounded-state"] if warns else [])


def prints(spark: Any, folder: Path, code: str, mode: str = "update") -> dict[str, Any]:
    text = f'@hr.stream(to=hr.console(), mode="{mode}")\ndef q(events):\n    return events.{code}\n'
    return dict(built(spark, folder, text).planned[0].query.fingerprint)


WINDOW = 'withWatermark("at", "1 minute").groupBy(F.window("at", "{}")).count()'


def test_a_fingerprint_is_the_same_for_the_same_query(spark: Any, folder: Path) -> None:
    first = prints(spark, folder, WINDOW.format("1 minute"))

    assert prints(spark, folder, WINDOW.format("1 minute")) == first
    assert first["sources"] == [{"kind": "json", "path": str(folder / "incoming")}]
    assert first["operators"][0]["name"] == "aggregate"


@pytest.mark.parametrize(
    "code",
    [
        WINDOW.format("2 minutes"),
        'withWatermark("at", "9 minutes").groupBy(F.window("at", "1 minute")).count()',
        'withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute"), "user").count()',
        'withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute")).agg(F.sum("amount"))',
    ],
)
def test_a_fingerprint_tells_what_spark_would_accept_in_silence(
    spark: Any, folder: Path, code: str
) -> None:
    assert prints(spark, folder, code) != prints(spark, folder, WINDOW.format("1 minute"))


def test_a_filter_does_not_change_the_operators(spark: Any, folder: Path) -> None:
    plain = prints(spark, folder, WINDOW.format("1 minute"))

    filtered = prints(spark, folder, 'where("amount > 1").' + WINDOW.format("1 minute"))

    assert filtered == plain


def test_a_shared_module_is_used_on_workers_without_being_installed(
    spark: Any, folder: Path
) -> None:
    (folder / "library_of_this_test.py").write_text("def tenfold(x):\n    return x * 10\n")
    result = built(
        spark,
        folder,
        """
        from library_of_this_test import tenfold

        @hr.udf("double")
        def ten(x):
            return tenfold(x)

        @hr.stream(to="out")
        def orders(events):
            return events.select(ten("amount").alias("amount"))
        """,
    )

    drained(spark, result)

    rows = spark.read.parquet(str(folder / "data/out")).orderBy("amount").collect()
    assert [r.amount for r in rows] == [15.0, 20.0, 40.0]


def test_real_time_falls_back_where_the_source_cannot(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        @hr.stream(to=hr.console(), trigger=hr.real_time("1 minute", otherwise="2 seconds"))
        def orders(events):
            return events
        """,
    )

    query = result.planned[0].query
    assert (query.trigger, query.mode) == ({"kind": "every", "seconds": 2.0}, "append")


def test_a_streams_function_is_placed_in_the_project(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        def upload(frame, batch_id): ...

        @hr.stream(to=hr.each_batch(upload))
        def orders(events):
            return events
        """,
    )

    assert result.planned[0].query.sink == {
        "kind": "each_batch",
        "function": "upload at orders.py:4",
    }


def test_a_table_that_is_a_stream_is_refused(spark: Any, folder: Path) -> None:
    (found,) = problems(
        spark,
        folder,
        """
        @hr.table
        def wrong(spark):
            return spark.readStream.format("rate").load()

        @hr.stream(to="out")
        def orders(events, wrong):
            return events
        """,
    )

    assert (found.code, found.where) == ("not-static", "orders.py:5")


def test_pipelines_of_one_project_can_be_loaded_first_and_built_later(
    spark: Any, folder: Path
) -> None:
    (folder / "library_of_two.py").write_text(
        "import headrace as hr\n\n@hr.view\ndef big(events):\n    return events.where('1=1')\n"
    )
    settings = config.load(folder)
    graphs = []
    for name in ("one", "two"):
        (folder / f"{name}.py").write_text(
            f"import headrace as hr\nimport library_of_two\n\n@hr.stream(to=hr.parquet('{name}'))\n"
            "def orders(big):\n    return big\n"
        )
        loaded = loader.load(f"{name}.py", folder, folder)
        graphs.append(graph.resolve(name, loaded.collector, settings))

    results = [build(one, spark, settings, prepare=False) for one in graphs]

    assert [r.planned[0].query.checkpoint for r in results] == [
        str(folder / f"checkpoints/{name}/orders/v1") for name in ("one", "two")
    ]


def test_a_socket_has_no_checkpoint_and_says_so(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        """
        @hr.source
        def lines():
            return hr.socket("127.0.0.1", 9)

        @hr.stream(to=hr.console())
        def shown(lines):
            return lines
        """,
    )

    query = result.planned[0].query
    assert (query.guarantee, query.checkpoint) == ("none", None)
    assert query.trigger == {"kind": "as-fast-as-possible"}


def test_toys_are_refused_outside_of_development(spark: Any, folder: Path) -> None:
    (folder / "headrace.toml").write_text(TOML + "\n[profiles.prod]\n")
    code = """
    @hr.stream(to=hr.console())
    def shown(events):
        return events
    """

    (found,) = problems(spark, folder, code, profile="prod")

    assert found.code == "not-for-production"


def test_sources_that_functions_read_themselves_are_known(spark: Any, folder: Path) -> None:
    result = built(
        spark,
        folder,
        f"""
        SCHEMA, HERE = "at timestamp, user string, amount double", "{folder}"

        @hr.source
        def raw(spark):
            return spark.readStream.schema(SCHEMA).json(f"{{HERE}}/incoming")

        @hr.view
        def made(spark):
            return spark.readStream.format("rate").load()

        @hr.stream(to=hr.parquet("data/own"))
        def own(spark, events):
            mine = hr.json(f"{{HERE}}/other", schema=SCHEMA).read(spark)
            return events.union(mine)

        @hr.stream(to=hr.parquet("data/declared"))
        def declared(raw):
            return raw

        @hr.stream(to=hr.console())
        def rated(made):
            return made
        """,
    )

    nodes = {node.name: node for node in result.nodes}
    assert nodes["own"].inputs == ("events", "json:other")
    assert nodes["made"].inputs == ("rate",)
    other = nodes["json:other"]
    assert (other.kind, other.is_declared) == ("source", False)
    assert other.connector == {"kind": "json", "path": str(folder / "other")}
    found = {p.query.name: (p.query.guarantee, p.query.guarantee_why) for p in result.planned}
    assert found["own"][0] == "exactly-once"
    assert "events (json), json:other (json) can be replayed" in found["own"][1]
    assert found["declared"][0] == "exactly-once"
    assert found["rated"][0] == "at-least-once"


@pytest.mark.parametrize(
    ("read", "sink", "slug"),
    [
        ('hr.socket("localhost", 9).read(spark)', 'hr.parquet("out")', "not-replayable"),
        ('spark.readStream.text("HERE/incoming")', 'hr.text("incoming")', "reads-itself"),
    ],
)
def test_what_functions_read_themselves_is_checked_as_well(
    spark: Any, folder: Path, read: str, sink: str, slug: str
) -> None:
    code = f"@hr.stream(to={sink})\ndef q(spark):\n    return {read}\n"
    code = code.replace("HERE", str(folder))
    assert [p.code for p in problems(spark, folder, code)] == [slug]
