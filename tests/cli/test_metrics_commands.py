"""`headrace metrics`: the list, and the files as the package has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import main
from headrace.metrics import packaged_files, table


def headrace(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["metrics", *arguments])


def test_every_metric_is_listed_with_its_meaning() -> None:
    done = headrace("list")

    assert done.exit_code == 0
    for one in table.METRICS:
        assert one.name in done.stdout
        assert one.help.split()[0] in done.stdout


def test_the_list_is_there_for_programs() -> None:
    found = json.loads(headrace("list", "--json").stdout)["metrics"]

    by_name = {one["name"]: one for one in found}
    assert by_name.keys() == {one.name for one in table.METRICS}
    assert by_name["headrace_query_input_rows_total"] == {
        "name": "headrace_query_input_rows_total",
        "dotted_name": "headrace.query.input_rows",
        "type": "counter",
        "unit": "rows",
        "labels": ["pipeline", "query"],
        "help": "Rows read.",
    }


def test_files_are_printed_without_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert headrace("grafana").stdout == packaged_files.read(packaged_files.DASHBOARD)
    assert headrace("prometheus-rules").stdout == packaged_files.read(packaged_files.RULES)
