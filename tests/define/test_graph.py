"""From declared names to a graph: order, and all mistakes at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace import config
from headrace.define import graph
from headrace.define.declarations import Collector, collecting
from headrace.define.triggers import Every
from headrace.errors import Error, Problems

TOML = """
[sources.raw]
kind = "text"
path = "incoming"
[sources.customers]
kind = "csv"
path = "customers.csv"
table = true
[sinks.out]
kind = "parquet"
path = "data/out"
[sinks.other]
kind = "json"
path = "data/other"
"""


def resolved(
    folder: Path, declare: Callable[[], None], more: str = "", pipeline: str = "p"
) -> graph.Graph:
    return graph.resolve(pipeline, *declared(folder, declare, more, pipeline))


def declared(
    folder: Path, declare: Callable[[], None], more: str = "", pipeline: str = "p"
) -> tuple[Collector, config.Settings]:
    (folder / "headrace.toml").write_text(TOML + more)
    settings = config.load(folder).for_pipeline(pipeline)
    with collecting(Collector(root=Path(__file__).parent)) as collector:
        declare()
    return collector, settings


def refused(folder: Path, declare: Callable[[], None], more: str = "") -> list[Error]:
    with pytest.raises(Error) as caught:
        resolved(folder, declare, more)
    error = caught.value
    return list(error.problems) if isinstance(error, Problems) else [error]


def one_stream() -> None:
    @hr.stream(to="out")
    def history(raw: Any) -> Any: ...


def test_parameters_are_edges_and_the_session_is_none(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.view
        def logs(spark: Any, raw: Any, customers: Any, limit: int = 5) -> Any: ...

        @hr.stream(to="out")
        def history(logs: Any) -> Any: ...

    made = resolved(tmp_path, declare)

    assert made.nodes["logs"].inputs == ("raw", "customers")
    assert made.nodes["customers"].kind == "table"
    assert made.queries == ("history",)


def test_queries_come_after_the_streams_that_they_read(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to="other")
        def second(seen: Any) -> Any: ...

        @hr.view
        def seen(first: Any) -> Any: ...

        @hr.stream(to="out")
        def first(raw: Any) -> Any: ...

    assert resolved(tmp_path, declare).queries == ("first", "second")


def test_paths_of_connectors_count_from_the_project(tmp_path: Path) -> None:
    made = resolved(tmp_path, one_stream)

    assert made.nodes["raw"].connector.fields()["path"] == str(tmp_path / "incoming")
    assert made.nodes["history"].sink.fields()["path"] == str(tmp_path / "data/out")


def test_settings_of_a_query_win_over_its_definition(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to="out", every="1 minute", fresh_within="1 minute")
        def history(raw: Any) -> Any: ...

    more = "[pipelines.p.queries.history]\nevery = '5s'\ncheckpoint = 'mine'\nfresh_within = 9\n"
    node = resolved(tmp_path, declare, more).nodes["history"]

    assert node.trigger == Every(5.0)
    assert node.checkpoint == str(tmp_path / "mine")
    assert node.fresh_within_s == 9.0


def test_freshness_of_the_pipeline_is_that_of_its_queries(tmp_path: Path) -> None:
    more = "[pipelines.p]\nfresh_within = '2 minutes'\n"

    assert resolved(tmp_path, one_stream, more).nodes["history"].fresh_within_s == 120.0


def test_an_unknown_input_names_the_near_miss_and_the_place(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to="out")
        def history(rwa: Any) -> Any: ...

    (problem,) = refused(tmp_path, declare)

    assert problem.code == "unknown-input"
    assert problem.fix == "Did you mean 'raw'?"
    assert str(problem.where).startswith("test_graph.py:")


def test_a_sink_taken_as_input_is_explained(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to="out")
        def history(other: Any) -> Any: ...

    (problem,) = refused(tmp_path, declare)

    assert "is a sink" in str(problem.fix)


def test_a_cycle_is_told_once_with_its_path(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.view
        def a(c: Any) -> Any: ...

        @hr.view
        def b(a: Any) -> Any: ...

        @hr.view
        def c(b: Any) -> Any: ...

        @hr.stream(to="out")
        def q(a: Any) -> Any: ...

    (problem,) = refused(tmp_path, declare)

    assert problem.code == "cycle"
    assert "a → c → b → a" in problem.what


def test_a_name_used_twice_names_both_places(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.source
        def raw() -> Any: ...

        one_stream()

    (problem,) = refused(tmp_path, declare)

    assert problem.code == "name-twice"
    assert "headrace.toml:2" in problem.what
    assert "test_graph.py:" in problem.what


def test_an_unknown_sink_names_the_near_miss(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to="othr")
        def q(raw: Any) -> Any: ...

    (problem,) = refused(tmp_path, declare)

    assert (problem.code, problem.fix) == ("unknown-sink", "Did you mean 'other'?")


def test_a_stream_whose_sink_keeps_nothing_cannot_be_an_input(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to=hr.console())
        def shown(raw: Any) -> Any: ...

        @hr.stream(to="out")
        def history(shown: Any) -> Any: ...

    assert [p.code for p in refused(tmp_path, declare)] == ["cannot-read-back"]


def test_a_file_without_a_stream_is_refused(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.view
        def logs(raw: Any) -> Any: ...

    (problem,) = refused(tmp_path, declare)

    assert problem.code == "no-streams"
    assert "logs" in str(problem.why)


def test_two_queries_may_not_share_a_checkpoint(tmp_path: Path) -> None:
    def declare() -> None:
        one_stream()

        @hr.stream(to="other")
        def second(raw: Any) -> Any: ...

    more = (
        "[pipelines.p.queries.history]\ncheckpoint = 'same'\n"
        "[pipelines.p.queries.second]\ncheckpoint = 'same/below'\n"
    )

    assert [p.code for p in refused(tmp_path, declare, more)] == ["checkpoint-shared"]


def test_a_checkpoint_of_another_pipelines_query_is_refused(tmp_path: Path) -> None:
    more = (
        "[pipelines.p.queries.history]\ncheckpoint = 'same'\n"
        "[pipelines.z.queries.other]\ncheckpoint = 'same'\n"
    )
    (problem,) = refused(tmp_path, one_stream, more)

    assert "z/other and p/history" in problem.what


def test_two_queries_may_not_write_to_one_folder(tmp_path: Path) -> None:
    def declare() -> None:
        one_stream()

        @hr.stream(to=hr.parquet("data/out/"))
        def second(raw: Any) -> Any: ...

    (problem,) = refused(tmp_path, declare)

    assert problem.code == "sink-shared"


def test_two_queries_may_write_to_one_topic(tmp_path: Path) -> None:
    def declare() -> None:
        one_stream()

        @hr.stream(to=hr.kafka("b:9092", topic="refused"))
        def first(raw: Any) -> Any: ...

        @hr.stream(to=hr.kafka("b:9092", topic="refused"))
        def second(raw: Any) -> Any: ...

    assert resolved(tmp_path, declare)


def test_a_topic_that_is_read_back_has_one_writer(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to=hr.kafka("b:9092", topic="shared"))
        def first(raw: Any) -> Any: ...

        @hr.stream(to=hr.kafka("b:9092", topic="shared"))
        def second(raw: Any) -> Any: ...

        @hr.stream(to="out")
        def counted(second: Any) -> Any: ...

    (problem,) = refused(tmp_path, declare)

    assert problem.code == "sink-shared"
    assert "Queries that read 'second'" in str(problem.why)


@pytest.mark.parametrize("topic", ["", 'topic = "logs"'])
def test_a_kafka_source_without_topics_is_told_how_to_name_them(tmp_path: Path, topic: str) -> None:
    more = f'[sources.raw_logs]\nkind = "kafka"\nservers = "b:9092"\n{topic}\n'
    (problem,) = refused(tmp_path, one_stream, more)

    assert problem.code == "not-a-source"
    named = "logs" if topic else "TOPIC"
    assert f'Set subscribe = "{named}", pattern or assign' in str(problem.fix)


def test_settings_of_an_unknown_query_are_refused(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, one_stream, "[pipelines.p.queries.histry]\nevery = '5s'\n")

    assert (problem.code, problem.fix) == ("unknown-query", "Did you mean 'history'?")


def test_settings_of_what_a_view_sets_aside_are_taken(tmp_path: Path) -> None:
    more = '[pipelines.p.queries."raw.quarantine"]\nevery = "5s"\n'
    (problem,) = refused(tmp_path, one_stream, more + "[pipelines.p.queries.wrong]\n")

    assert "queries.wrong" in problem.what


def test_a_parameter_that_takes_anything_is_refused(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to="out")
        def q(*frames: Any) -> Any: ...

    assert [p.code for p in refused(tmp_path, declare)] == ["bad-parameter"]


def test_a_wrong_connector_is_told_with_its_line_even_if_unused(tmp_path: Path) -> None:
    more = '[sinks.third]\nkind = "parquet"\npth = "x"\n'
    (problem,) = refused(tmp_path, one_stream, more)

    assert (problem.code, problem.fix) == ("unknown-field", "Did you mean 'path'?")
    assert problem.where == "headrace.toml:15"


def test_mistakes_of_decorators_settings_and_names_come_together(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.stream(to="ut", mode="apend")
        def q(rwa: Any) -> Any: ...

    found = refused(tmp_path, declare, '[sources.x]\nkind = "parkett"\n')

    assert sorted(p.code for p in found) == [
        "bad-mode",
        "unknown-input",
        "unknown-kind",
        "unknown-sink",
    ]


def test_what_is_sound_beside_a_problem_can_still_be_built(tmp_path: Path) -> None:
    def declare() -> None:
        @hr.view
        def misspelt(rwa: Any) -> Any: ...

        @hr.stream(to="other")
        def behind(misspelt: Any) -> Any: ...

        @hr.view
        def one(two: Any) -> Any: ...

        @hr.view
        def two(one: Any) -> Any: ...

        @hr.stream(to=hr.json("data/round"))
        def around(two: Any) -> Any: ...

        @hr.stream(to="nowhere")
        def lost(raw: Any) -> Any: ...

        @hr.stream(to="out")
        def sound(raw: Any) -> Any: ...

    made, problems = graph.examine("p", *declared(tmp_path, declare))

    assert [p.code for p in problems] == ["unknown-sink", "unknown-input", "cycle"]
    assert made.queries == ("sound",)
    assert set(made.unsound) == {"misspelt", "behind", "one", "two", "around", "lost"}
    assert made.unsound["behind"] is made.unsound["misspelt"]
    assert made.unsound["around"] is made.unsound["two"]
