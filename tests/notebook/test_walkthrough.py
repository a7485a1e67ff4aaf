"""The walk-through of the docs as a real notebook in a real kernel, and what is stored of it."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

import gone

NOTEBOOK = Path(__file__).parents[2] / "docs/notebooks/walkthrough.ipynb"
COUNTS = [("10:00", "2"), ("10:01", "2"), ("10:02", "3"), ("10:03", "1")]


class Walked:
    """An executed notebook: the outputs of a cell by its id, and who was there meanwhile."""

    def __init__(self, notebook: Any, processes: dict[str, psutil.Process]) -> None:
        self.cells = {cell.id: cell for cell in notebook.cells}
        self.processes = processes

    def data(self, cell: str) -> list[dict[str, str]]:
        """Without what Spark says on its standard error."""
        return [o.data for o in self.cells[cell].outputs if "data" in o and any(o.data.values())]

    def html(self, cell: str) -> str:
        return "".join(one.get("text/html", "") for one in self.data(cell))

    def result(self, cell: str) -> str:
        return self.data(cell)[-1]["text/plain"]


def check(walked: Walked) -> None:
    """What a reader finds in it, executed now or stored."""
    table = walked.html("table")
    items = re.findall(r">(apples|pears|plums)<", table)
    sent = [sorted(items[:3]), sorted(items[3:5]), sorted(items[5:])]  # of one batch in any order
    assert sent == [["apples", "apples", "pears"], ["pears", "plums"], ["apples", "pears", "plums"]]
    assert "<b>Orders</b>" in table
    assert "Stopped" in table
    assert "rows/s" in table
    assert walked.result("second") == "5"
    assert re.findall(r'right">(\d+)<', walked.html("count")) == ["8", "25"]
    assert walked.result("third") == "[{'orders': 8, 'pieces': 25}]"
    told = re.search(r'alt="bar chart over arrived\. orders: ([^"]*)"', walked.html("chart"))
    assert told is not None
    assert re.findall(r"(\d\d:\d\d) = (\d+)", told[1]) == COUNTS
    assert "data:image/svg+xml" in walked.html("chart")
    assert walked.result("stop") == "[]"


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    folder = tmp_path_factory.mktemp("walkthrough")
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    processes: dict[str, psutil.Process] = {}
    others = set(psutil.Process().children(recursive=True))  # a session of other tests, a broker

    def seen(**_: Any) -> None:
        found = set(psutil.Process().children(recursive=True)) - others
        for one in found:
            with contextlib.suppress(psutil.Error):  # it may have ended meanwhile
                processes[one.name()] = one

    client.on_cell_executed = seen
    temporary = tmp_path_factory.mktemp("tmp")
    client.execute(env={**os.environ, "TMPDIR": str(temporary)})
    assert list(temporary.glob("headrace-display-*")) == []
    # As it would be opened again.
    nbformat.write(notebook, folder / "walked.ipynb")  # type: ignore[no-untyped-call]
    return Walked(nbformat.read(folder / "walked.ipynb", as_version=4), processes)  # type: ignore[no-untyped-call]


@pytest.mark.e2e
@pytest.mark.spark
def test_the_walk_through_works_and_the_saved_notebook_shows_the_last_state(walked: Walked) -> None:
    check(walked)


@pytest.mark.e2e
@pytest.mark.spark
def test_nothing_is_left_of_it(walked: Walked) -> None:
    assert "java" in walked.processes

    assert gone.alive_at_last(walked.processes.values()) == []


def test_the_stored_walk_through_shows_the_same_and_is_small() -> None:
    stored = Walked(nbformat.read(NOTEBOOK, as_version=4), {})  # type: ignore[no-untyped-call]

    check(stored)
    assert NOTEBOOK.stat().st_size < 100_000
    assert "stderr" not in NOTEBOOK.read_text()
