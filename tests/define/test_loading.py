"""Finding a project's pipelines and running their files."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import config
from headrace.define import loader
from headrace.errors import Error, Problems

STREAM = """
import headrace as hr

@hr.stream(to=hr.console())
def shown(spark):
    return None
"""


@pytest.fixture(autouse=True)
def imports_are_put_back() -> Iterator[None]:
    paths, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = paths
    for name in set(sys.modules) - modules:
        if name.startswith("headrace_pipeline_"):
            del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def found(folder: Path) -> list[str]:
    return list(loader.discover(config.load(folder)))


def refused(file: str, root: Path, project: Path | None = None) -> Error:
    with pytest.raises(Error) as caught:
        loader.load(file, root, project or root)
    return caught.value


def test_pipelines_are_the_files_of_their_folder(tmp_path: Path) -> None:
    write(tmp_path / "pipelines" / "orders.py", STREAM)
    write(tmp_path / "pipelines" / "_shared.py", "")
    write(tmp_path / "other.py", STREAM)

    assert found(tmp_path) == ["orders"]


def test_without_that_folder_they_are_the_files_with_a_stream(tmp_path: Path) -> None:
    write(tmp_path / "orders.py", STREAM)
    write(tmp_path / "views.py", "import headrace as hr\n@hr.view\ndef v(x): ...\n")
    write(tmp_path / "setup.py", "print('no')\n")
    write(tmp_path / "named.py", "from headrace import stream as s\n@s(to='x')\ndef q(): ...\n")

    assert found(tmp_path) == ["named", "orders"]


def test_globs_override_both(tmp_path: Path) -> None:
    write(tmp_path / "headrace.toml", '[project]\npipelines = ["flows/*.py"]\n')
    write(tmp_path / "flows" / "a.py", STREAM)
    write(tmp_path / "pipelines" / "b.py", STREAM)

    assert found(tmp_path) == ["a"]


def test_a_file_whose_name_cannot_be_a_pipeline_is_refused_with_a_better_one(
    tmp_path: Path,
) -> None:
    write(tmp_path / "pipelines" / "My Orders.py", STREAM)

    with pytest.raises(Error) as caught:
        found(tmp_path)

    assert caught.value.code == "bad-name"
    assert "'pipelines/my_orders.py'" in str(caught.value.fix)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "headrace.toml", '[project]\npipelines = ["*/*.py"]\n')
    write(tmp_path / "a" / "orders.py", STREAM)
    write(tmp_path / "b" / "orders.py", STREAM)

    with pytest.raises(Error) as caught:
        found(tmp_path)

    assert caught.value.code == "name-twice"
    assert "a/orders.py" in caught.value.what
    assert "b/orders.py" in caught.value.what


def test_settings_for_a_pipeline_that_does_not_exist_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "headrace.toml", "[pipelines.order]\nfresh_within = 5\n")
    write(tmp_path / "orders.py", STREAM)

    with pytest.raises(Error) as caught:
        found(tmp_path)

    assert caught.value.code == "unknown-pipeline"
    assert caught.value.fix == "Did you mean 'orders'?"


@pytest.mark.parametrize(
    ("text", "is_it"),
    [
        (STREAM, False),
        ("import headrace\n@headrace.view\ndef v(): ...\n", False),
        ("from pyspark.sql import SparkSession\n", True),
        ("import headrace as hr\nhr.display(1)\n", True),
        ("def stream(f): return f\n@stream\ndef q(): ...\n", True),
        ("import headrace as hr\n@hr.stream(\ndef q(: ...\n", False),
    ],
)
def test_a_script_is_a_file_without_definitions(tmp_path: Path, text: str, is_it: bool) -> None:
    assert loader.is_script(write(tmp_path / "x.py", text)) is is_it


def test_a_file_is_run_and_its_definitions_are_recorded(tmp_path: Path) -> None:
    write(tmp_path / "pipelines" / "orders.py", STREAM)

    loaded = loader.load("pipelines/orders.py", tmp_path, tmp_path)

    assert loaded.name == "orders"
    assert loaded.file == "pipelines/orders.py"
    (shown,) = loaded.collector.declared
    assert str(shown.place) == "pipelines/orders.py:5"


def test_definitions_of_an_imported_module_count_for_every_pipeline(tmp_path: Path) -> None:
    write(tmp_path / "library.py", "import headrace as hr\n@hr.view\ndef shared(raw): ...\n")
    for name in ("one", "two"):
        write(tmp_path / "pipelines" / f"{name}.py", "from library import shared\n" + STREAM)

    names = [
        [d.name for d in loader.load(f"pipelines/{n}.py", tmp_path, tmp_path).collector.declared]
        for n in ("one", "two")
    ]

    assert names == [["shared", "shown"], ["shared", "shown"]]


def test_the_deployed_copy_runs_and_not_what_was_edited_since(tmp_path: Path) -> None:
    project, copy = tmp_path / "project", tmp_path / "copy"
    for folder, value in ((project, "edited"), (copy, "deployed")):
        write(folder / "library.py", f"VALUE = {value!r}\n")
        write(folder / "orders.py", "import library\nSEEN = library.VALUE\n")
    sys.path.insert(0, str(project))

    loader.load("orders.py", copy, project)

    assert sys.modules["headrace_pipeline_orders"].SEEN == "deployed"


def test_places_in_a_copy_are_those_of_the_project(tmp_path: Path) -> None:
    project, copy = tmp_path / "project", tmp_path / "state" / "versions" / "abc" / "files"
    project.mkdir()
    write(copy / "pipelines" / "orders.py", "x = 1\ny = x / 0\n")

    problem = refused("pipelines/orders.py", copy, project)

    assert problem.where == "pipelines/orders.py:2"
    assert str(copy) not in str(problem)


def test_an_exception_names_the_users_innermost_line(tmp_path: Path) -> None:
    write(tmp_path / "library.py", "def half():\n    return int('x')\n")
    write(tmp_path / "orders.py", "import library\n\nlibrary.half()\n")

    problem = refused("orders.py", tmp_path)

    assert problem.code == "definition-raised"
    assert problem.where == "library.py:2"
    assert "ValueError" in problem.what


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    write(tmp_path / "orders.py", "import os\n\ndef f(:\n    pass\n")

    problem = refused("orders.py", tmp_path)

    assert (problem.code, problem.where) == ("syntax-error", "orders.py:3")


def test_a_syntax_error_in_an_imported_module_names_that_module(tmp_path: Path) -> None:
    write(tmp_path / "library.py", "x = (\n")
    write(tmp_path / "orders.py", "import library\n")

    problem = refused("orders.py", tmp_path)

    assert problem.code == "syntax-error"
    assert str(problem.where).startswith("library.py:")


def test_a_missing_package_says_how_to_install_it(tmp_path: Path) -> None:
    write(tmp_path / "orders.py", "import os\nimport no_such_package_xyz\n")

    problem = refused("orders.py", tmp_path)

    assert (problem.code, problem.where) == ("import-error", "orders.py:2")
    assert "pip install no_such_package_xyz" in str(problem.fix)


def test_a_mistyped_module_of_the_project_is_suggested(tmp_path: Path) -> None:
    write(tmp_path / "library.py", "")
    write(tmp_path / "orders.py", "import libary\n")

    assert refused("orders.py", tmp_path).fix == "Did you mean 'library'?"


def test_a_missing_file_is_told_from_a_missing_module(tmp_path: Path) -> None:
    write(tmp_path / "orders.py", "")

    problem = refused("oders.py", tmp_path)

    assert problem.code == "file-missing"
    assert problem.fix == "Did you mean 'orders.py'?"


def test_a_file_that_exits_is_told(tmp_path: Path) -> None:
    write(tmp_path / "orders.py", "import sys\nsys.exit(3)\n")

    problem = refused("orders.py", tmp_path)

    assert (problem.code, problem.where) == ("definition-raised", "orders.py:2")


def test_a_connector_made_wrongly_is_told_with_its_line(tmp_path: Path) -> None:
    write(tmp_path / "orders.py", "import headrace as hr\n\nX = hr.files('a', format='parkay')\n")

    problem = refused("orders.py", tmp_path)

    assert (problem.code, problem.where) == ("bad-format", "orders.py:3")


def test_mistakes_before_the_one_that_ends_the_file_are_told_too(tmp_path: Path) -> None:
    text = "import headrace as hr\n@hr.stream(to='x', mode='y')\ndef q(): ...\nhr.rate(0)\n"
    write(tmp_path / "orders.py", text)

    problem = refused("orders.py", tmp_path)

    assert isinstance(problem, Problems)
    assert [p.code for p in problem.problems] == ["bad-mode", "bad-option"]


def test_a_file_changed_within_a_second_runs_as_it_is_now(tmp_path: Path) -> None:
    for value in (1, 2):
        write(tmp_path / "library.py", f"VALUE = {value}\n")
        write(tmp_path / "orders.py", "from library import VALUE\n")
        loader.load("orders.py", tmp_path, tmp_path)

        assert value == sys.modules["headrace_pipeline_orders"].VALUE


def test_a_file_named_like_a_module_of_python_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "pipelines" / "fine.py", STREAM)
    write(tmp_path / "queue.py", "")

    with pytest.raises(Error) as caught:
        loader.load("pipelines/fine.py", root=tmp_path, project=tmp_path)

    assert caught.value.code == "hides-module"
    assert caught.value.fix == "mv 'queue.py' 'my_queue.py'"


def test_all_that_a_connector_refuses_is_reported_with_its_line(tmp_path: Path) -> None:
    write(
        tmp_path / "orders.py", "import headrace as hr\nx = hr.json('in', max_files=0, schema=5)\n"
    )

    problems = refused("orders.py", tmp_path)

    assert isinstance(problems, Problems)
    assert [one.where for one in problems.problems] == ["orders.py:2"] * 2
