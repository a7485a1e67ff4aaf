"""`@hr.listener`: what it accepts, and what it refuses with file and line. Without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import config
from headrace.define import graph, loader
from headrace.define.declarations import Declaration
from headrace.errors import Error, Problems

PIPELINE = """
@hr.stream(to=hr.parquet("data/out"))
def kept():
    return "SELECT 1"
"""
HEAD = "import headrace as hr\nfrom pyspark.sql.streaming import StreamingQueryListener\n"
AUDIT = """
@hr.listener
class Audit(StreamingQueryListener):
    def onQueryStarted(self, event): ...
    def onQueryProgress(self, event): ...
    def onQueryTerminated(self, event): ...
"""


Found = tuple[tuple[Declaration, ...], list[Error]]


def examined(folder: Path, code: str, **modules: str) -> Found:
    for name, text in {**modules, "orders": code}.items():
        (folder / f"{name}.py").write_text(text)
    loaded = loader.load("orders.py", folder, folder)
    found, problems = graph.examine("orders", loaded.collector, config.load(folder))
    return found.listeners, problems


def test_a_class_of_pyspark_is_accepted_as_it_is(tmp_path: Path) -> None:
    (audit,), problems = examined(tmp_path, HEAD + PIPELINE + AUDIT)

    assert problems == []
    assert (audit.name, audit.kind, str(audit.place)) == ("Audit", "listener", "orders.py:9")
    assert audit.function.__name__ == "Audit"


def test_a_listener_of_an_imported_module_counts(tmp_path: Path) -> None:
    code = HEAD + "import shared\n" + PIPELINE

    (audit,), problems = examined(tmp_path, code, shared=HEAD + AUDIT)

    assert problems == []
    assert str(audit.place) == "shared.py:5"


def test_a_function_may_return_the_listener_and_take_the_session(tmp_path: Path) -> None:
    code = "@hr.listener\ndef audit(spark, level='info'):\n    return None\n"

    (audit,), problems = examined(tmp_path, HEAD + PIPELINE + code)

    assert problems == []
    assert (audit.name, str(audit.place)) == ("audit", "orders.py:8")


def test_a_listener_may_have_the_name_of_a_query(tmp_path: Path) -> None:
    _, problems = examined(tmp_path, HEAD + PIPELINE + AUDIT.replace("Audit", "kept"))

    assert problems == []


@pytest.mark.parametrize(
    ("code", "slug", "what", "fix"),
    [
        (
            "@hr.listener\nclass Audit:\n    pass\n",
            "not-a-listener",
            "@hr.listener is applied to Audit, which is not a StreamingQueryListener class.",
            "derive the class from it",
        ),
        (
            f"{AUDIT.strip().removeprefix('@hr.listener')}\nhr.listener(Audit())\n",
            "not-a-listener",
            "which is not a StreamingQueryListener class.",
            "Put @hr.listener above the class",
        ),
        ("hr.listener(5)\n", "not-a-listener", "@hr.listener is applied to 5", "derive"),
        (
            "@hr.listener\ndef audit(path):\n    return None\n",
            "bad-parameter",
            "The listener 'audit' needs the parameter 'path'.",
            "Give path a default",
        ),
    ],
)
def test_anything_else_is_refused_with_its_line(
    tmp_path: Path, code: str, slug: str, what: str, fix: str
) -> None:
    _, (problem,) = examined(tmp_path, HEAD + PIPELINE + code)

    assert problem.code == slug
    assert what in problem.what
    assert str(problem.where).startswith("orders.py:")
    assert fix in str(problem.fix)


def test_mistakes_in_a_listener_and_in_a_query_are_told_together(tmp_path: Path) -> None:
    code = HEAD + PIPELINE.replace("def kept()", "def kept(lins)") + "hr.listener(5)\n"
    (tmp_path / "orders.py").write_text(code)
    loaded = loader.load("orders.py", tmp_path, tmp_path)

    with pytest.raises(Problems) as caught:
        graph.resolve("orders", loaded.collector, config.load(tmp_path))

    assert {one.code for one in caught.value.problems} == {"not-a-listener", "unknown-input"}


def test_a_file_with_nothing_but_a_listener_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(HEAD + AUDIT)

    assert not loader.is_script(tmp_path / "orders.py")
