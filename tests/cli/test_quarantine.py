"""`headrace quarantine list` over files that a stream's log has committed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from headrace.cli.main import main
from headrace.json_file import write_json
from headrace.model.pipeline import Definition, Query
from headrace.model.runs import Desired
from headrace.model.state_paths import StatePaths
from headrace.state import desired

pytestmark = pytest.mark.thorough

ROWS = [
    (b'{"id": "x"}', "wrong-type", "id is not of type int"),
    (b"\xff\x00[red]", "not-utf8", None),
    (b'{"id": "y"}', "wrong-type", "id is not of type int"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "quarantine" / "shop" / "logs"
    folder.mkdir(parents=True)
    places = StatePaths(tmp_path / ".headrace")
    query = Query(
        name="logs.quarantine",
        place="shop.py:3",
        inputs=("raw",),
        sink={"kind": "parquet", "path": str(folder)},
        mode="append",
        trigger={"kind": "every", "seconds": 10},
        checkpoint=None,
        guarantee="exactly-once",
        guarantee_why="",
        schema="raw binary, bytes int, reason string, detail string, rule string, source string, "
        "`partition` int, `offset` bigint, version string, at timestamp",
    )
    found = Definition("shop", "dev", "v1", "shop.py", (), (query,))
    write_json(places.definition("v1", "dev", "shop"), found.to_json())
    desired.write(places, Desired("shop", "running", "v1", "dev", "shop.py", at=1.0, by="me"))
    return tmp_path


def commit(project: Path, rows: list[tuple[bytes, str, str | None]]) -> None:
    folder = project / "quarantine" / "shop" / "logs"
    at = [datetime(2026, 1, 1, 10, 0, i, tzinfo=UTC) for i in range(len(rows))]
    table = pa.table(
        {
            "raw": [r[0] for r in rows],
            "bytes": pa.array([len(r[0]) for r in rows], pa.int32()),
            "reason": [r[1] for r in rows],
            "detail": [r[2] for r in rows],
            "rule": ["parse_json"] * len(rows),
            "source": ["file:///in/one.txt"] * len(rows),
            "partition": pa.array([None] * len(rows), pa.int32()),
            "offset": pa.array([None] * len(rows), pa.int64()),
            "version": ["v1"] * len(rows),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(table, folder / "part-0.parquet")
    (folder / "part-torn.parquet").write_bytes(b"PAR1")  # a batch that was never committed
    log = folder / "_spark_metadata"
    log.mkdir()
    entry = {"path": f"file://{folder}/part-0.parquet", "size": 1, "action": "add"}
    (log / "0").write_text("v1\n" + json.dumps(entry))


def asked(project: Path, *words: str) -> Any:
    given = ["quarantine", "list", *words, "--project", str(project)]
    return CliRunner().invoke(main, given, catch_exceptions=False)


def test_it_counts_by_reason_and_shows_the_newest(project: Path) -> None:
    commit(project, ROWS)

    body = json.loads(asked(project, "--json").stdout)

    (one,) = body["quarantines"]
    assert (one["pipeline"], one["of"], one["rows"]) == ("shop", "logs", 3)
    assert one["reasons"] == {"wrong-type": 2, "not-utf8": 1}
    assert [r["reason"] for r in one["newest"]] == ["wrong-type", "not-utf8", "wrong-type"]
    assert one["newest"][1]["text"] == r"\xff\x00[red]"
    assert one["newest"][1]["raw"] == "/wBbcmVkXQ=="
    assert set(one["newest"][1]) == {
        "at", "reason", "detail", "source", "partition", "offset", "bytes", "version", "text", "raw"
    }  # fmt: skip


def test_people_see_what_the_records_were(project: Path) -> None:
    commit(project, ROWS)

    said = asked(project, "shop").stdout

    assert "shop/logs.quarantine: 3 records (2 wrong-type, 1 not-utf8)" in said
    assert "id is not of type int" in said
    assert "2026-01-01 10:00:02Z" in said
    assert "[red]" in said  # shown, not obeyed
    assert "\x00" not in said


def test_one_that_is_empty_is_named(project: Path) -> None:
    assert asked(project).stdout == "shop/logs.quarantine: 0 records\n"


def test_an_unknown_name_gets_the_near_miss(project: Path) -> None:
    result = asked(project, "log")

    assert result.exit_code == 2
    assert "'logs'" in result.stderr
