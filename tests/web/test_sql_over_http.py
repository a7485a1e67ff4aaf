"""SQL over HTTP: real rows through a real child process, its limits, and attacks."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from cli.stage import Project
from headrace import config
from headrace.connectors.live_snapshots import LiveSnapshots
from headrace.errors import SqlError
from headrace.json_file import write_json
from headrace.model.pipeline import Definition, Query
from headrace.project import sql_workers
from headrace.web import app
from headrace.web.visit import Site
from web.conftest import HOST, TOML, Visitor, undocumented

pytestmark = pytest.mark.thorough  # its children read their libraries first

PLANTED = "planted-in-a-file"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployed pipeline with a Parquet sink and a live table, and files outside of them."""
    folder = tmp_path_factory.mktemp("sql") / "project"
    folder.mkdir()
    sink = '[sinks.metrics]\nkind = "parquet"\npath = "data/metrics"\n'
    (folder / "headrace.toml").write_text(TOML + sink)
    project = Project(folder)
    project.deployed("shop")
    live = {"kind": "live", "key": ["user"], "chart": "bar", "x": "user", "y": ["n"],
            "path": str(folder / "results/shop/counts/v1")}  # fmt: skip
    sink = {"kind": "parquet", "path": str(folder / "data/metrics")}
    facts = ("shop.py:1", ("s",))
    rest = ("append", {}, None, "exactly-once", "")
    queries = (
        Query("kept", *facts, sink, *rest, "id int, level string"),
        Query("counts", *facts, live, *rest, "user string, n int"),
    )
    definition = Definition("shop", "dev", "aaaa1111", "shop.py", (), queries)
    write_json(project.places.definition("aaaa1111", "dev", "shop"), definition.to_json())
    data = folder / "data" / "metrics"
    data.mkdir(parents=True)
    path = data / "part-0.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "level": ["WARN", "INFO", "ERROR"]}), path)
    log = data / "_spark_metadata"
    log.mkdir()
    entry = {"path": path.as_uri(), "size": path.stat().st_size, "isDir": False, "action": "add"}
    (log / "0").write_text("v1\n" + json.dumps(entry))
    pq.write_table(pa.table({"id": [99], "level": [PLANTED]}), data / "uncommitted.parquet")
    (folder / "secret.txt").write_text(PLANTED)
    pq.write_table(pa.table({"x": [PLANTED]}), folder / "secret.parquet")
    (data / "link.parquet").symlink_to(folder / "secret.parquet")
    (data / "away").symlink_to(folder)
    book = LiveSnapshots(Path(live["path"]), ("user",), 1000, {"key": ["user"]})
    rows = pa.table({"user": ["a", "b's", "<img src=x>"], "n": [1, 2, 3]})
    book.add(7, rows, at=datetime(2026, 1, 1, tzinfo=UTC).timestamp(), is_whole=True)
    return folder


@pytest.fixture(scope="module")
def asking(folder: Path) -> Iterator[Visitor]:
    site = Site(config.load(folder))
    with TestClient(app.build(site), base_url=f"http://{HOST}") as http:
        visitor = Visitor(Project(folder), http)
        visitor.log_in()
        yield visitor


def test_committed_rows_and_as_of_when(asking: Visitor) -> None:
    answer = asking.post(
        "/api/sql", {"sql": "SELECT * FROM metrics WHERE level != 'INFO' ORDER BY id"}
    )

    assert answer["rows"] == [[1, "WARN"], [3, "ERROR"]]
    assert [c["name"] for c in answer["columns"]] == ["id", "level"]
    assert answer["tables"][0]["as_of"]


def test_a_table_can_be_read_by_its_path(asking: Visitor) -> None:
    answer = asking.post("/api/sql", {"sql": "SELECT count(*) FROM parquet.`data/metrics`"})

    assert answer["rows"] == [[3]]


def test_tables_are_listed_with_their_columns(asking: Visitor) -> None:
    found = {one["name"]: one for one in asking.get("/api/sql")["tables"]}

    assert found["metrics"]["schema"] == "id int, level string"
    assert found["counts"]["kind"] == "live"


def test_every_field_of_a_response_is_in_the_docs(asking: Visitor) -> None:
    answers = {
        "GET /api/sql": asking.get("/api/sql"),
        "POST /api/sql": asking.post("/api/sql", {"sql": "SELECT * FROM metrics"}),
        "GET /api/live": asking.get("/api/live"),
        "GET /api/live/{table}": asking.get("/api/live/counts"),
        "GET /api/live/{table}/{key}": asking.get("/api/live/counts/a"),
        "GET /api/quarantine": asking.get("/api/quarantine"),
    }

    assert {
        name: found for name, got in answers.items() if (found := undocumented(name, got))
    } == {}


ATTACKS = [
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM text.`secret.txt`",
    "SELECT * FROM parquet.`secret.parquet`",
    "SELECT * FROM parquet.`{folder}/secret.parquet`",
    "SELECT * FROM parquet.`data/metrics/../../secret.parquet`",
    "SELECT * FROM parquet.`data/metrics/uncommitted.parquet`",
    "SELECT * FROM text.`data/metrics/_spark_metadata/0`",
    "SELECT * FROM parquet.`data/metrics/link.parquet`",
    "SELECT * FROM text.`data/metrics/away/secret.txt`",
    "WITH x AS (COPY (SELECT 1) TO '{folder}/data/metrics/x.parquet') SELECT * FROM x",
    "DESCRIBE parquet.`data/metrics/uncommitted.parquet`",
    "SELECT * FROM csv.`headrace.toml`",
    "SELECT * FROM json.`.headrace/desired/shop.json`",
    "SELECT * FROM text.`.headrace/keys`",
    "SELECT * FROM parquet.`data`",
    "SELECT * FROM parquet.`/`",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('{folder}/secret.txt')",
    "SELECT * FROM read_blob('{folder}/secret.txt')",
    "SELECT * FROM read_parquet('{folder}/data/metrics/uncommitted.parquet')",
    "SELECT * FROM parquet_scan('{folder}/data/metrics/uncommitted.parquet')",
    "SELECT * FROM parquet_metadata('{folder}/data/metrics/uncommitted.parquet')",
    "SELECT * FROM read_json('{folder}/.headrace/desired/shop.json')",
    "SELECT * FROM read_json_auto('{folder}/.headrace/desired/shop.json')",
    "SELECT * FROM read_ndjson_objects('{folder}/secret.txt')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('{folder}/secret.txt')",
    "SELECT * FROM '{folder}/secret.parquet'",
    "SELECT * FROM `{folder}/secret.parquet`",
    "SELECT * FROM metrics, read_text('{folder}/secret.txt') x",
    "SELECT (SELECT count(*) FROM read_text('{folder}/secret.txt')) FROM metrics",
    "WITH x AS (SELECT * FROM glob('/etc/*')) SELECT * FROM x",
    "SELECT * FROM metrics WHERE EXISTS (SELECT 1 FROM read_blob('{folder}/secret.txt'))",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('metrics')",
    "SELECT getenv('HOME')",
    "SELECT getvariable('headrace:0') FROM metrics",
    "SELECT current_setting('allowed_directories')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM information_schema.tables",
    "SELECT java_method('java.lang.System', 'getProperty', 'user.dir')",
    "SELECT reflect('java.lang.Runtime', 'getRuntime')",
    "SELECT TRANSFORM(id) USING '/bin/cat' FROM metrics",
    "COPY (SELECT 1) TO '{folder}/data/metrics/x.parquet'",
    "COPY metrics FROM '/etc/passwd'",
    "EXPORT DATABASE '{folder}/x'",
    "ATTACH '{folder}/.headrace/history.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "CREATE TABLE x AS SELECT 1",
    "CREATE MACRO m() AS 1",
    "INSERT INTO metrics VALUES (1, 'x')",
    "DELETE FROM metrics",
    "DROP TABLE metrics",
    "CALL pragma_version()",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE metrics",
    "EXPLAIN ANALYZE SELECT * FROM metrics",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
    "SELECT * FROM parquet.`s3a://bucket/x`",
    "SELECT * FROM parquet.`http://127.0.0.1:1/x`",
]


@pytest.mark.parametrize("sql", ATTACKS)
def test_only_tables_can_be_read(
    asking: Visitor, folder: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = asking.http.app.site.feed or None  # type: ignore[attr-defined]
    if feed is not None:
        feed.sql_limit.most = 10_000
    before = sorted(str(p) for p in folder.rglob("*") if ".headrace" not in str(p))

    done = asking.http.post("/api/sql", json={"sql": sql.replace("{folder}", str(folder))})

    assert done.status_code in (400, 404), done.text
    assert PLANTED not in done.text
    assert "root:" not in done.text
    assert sorted(str(p) for p in folder.rglob("*") if ".headrace" not in str(p)) == before


def test_there_are_at_least_forty_attacks() -> None:
    assert len(set(ATTACKS)) >= 40


@pytest.mark.parametrize(
    "slow",
    [
        "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b",
        # DuckDB cannot be interrupted in this call: its process has to be killed.
        "SELECT levenshtein(repeat('a', 400000), repeat('b', 400000))",
    ],
)
def test_a_query_that_takes_too_long_is_ended(
    asking: Visitor, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    monkeypatch.setattr("headrace.web.sql.TIMEOUT_S", 0.5)
    begin = time.monotonic()

    answer = asking.post("/api/sql", {"sql": slow}, 400)

    assert answer["error"]["slug"] == "sql-timeout"
    assert time.monotonic() - begin < sql_workers.START_S
    monkeypatch.undo()
    assert asking.post("/api/sql", {"sql": "SELECT 1 AS one"})["rows"] == [[1]]


def test_a_child_that_does_not_respond_is_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the child cannot end the query itself."""
    monkeypatch.setattr(sql_workers, "START_S", 0.5)
    pool = sql_workers.QueryWorkers(config.load(folder))
    pool._command = ("sleep", "60")
    begin = time.monotonic()

    with pytest.raises(sql_workers.SqlError, match="was cancelled after"):
        pool.ask("sql", 0.2, sql="SELECT 1", rows=1)

    assert time.monotonic() - begin < 10
    pool.close()


def test_more_than_two_queries_at_once_wait_and_fail(folder: Path) -> None:
    assert sql_workers.WORKERS == 2
    pool = sql_workers.QueryWorkers(config.load(folder))
    taken = [pool._free.get() for _ in range(sql_workers.WORKERS)]

    with pytest.raises(sql_workers.Error, match="already running"):
        pool.ask("sql", 1.0, wait_s=0.1, sql="SELECT 1", rows=1)

    for one in taken:
        pool._free.put(one)
    pool.close()


def test_a_large_result_is_cut_or_refused_with_the_limit(asking: Visitor) -> None:
    answer = asking.post("/api/sql", {"sql": "SELECT * FROM range(100000)", "rows": 1000})
    assert (len(answer["rows"]), answer["is_cut"]) == (1000, True)

    cell = asking.post("/api/sql", {"sql": "SELECT repeat('x', 5000000) AS big"})
    assert cell["rows"][0][0].endswith("(5,000,000 characters)")
    assert len(cell["rows"][0][0]) < 11_000

    wide = "SELECT repeat('x', 9000) FROM range(1000)"
    refused = asking.post("/api/sql", {"sql": wide, "rows": 1000}, 400)
    assert refused["error"]["slug"] == "sql-too-large"


# ---- live tables


def test_a_live_table_as_rows_csv_and_parquet(asking: Visitor, tmp_path: Path) -> None:
    answer = asking.get("/api/live/counts")
    csv = asking.http.get("/api/live/shop.counts?as=csv")
    parquet = asking.http.get("/api/live/counts?as=parquet")

    assert sorted(row[1] for row in answer["rows"]) == [1, 2, 3]
    assert (answer["x"], answer["y"], answer["chart"], answer["tables"][0]["batch"]) == (
        "user", ["n"], "bar", 7
    )  # fmt: skip
    assert csv.text.splitlines()[0] == "user,n"
    assert csv.headers["content-disposition"] == 'attachment; filename="counts.csv"'
    (tmp_path / "x.parquet").write_bytes(parquet.content)
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 3


def test_a_snapshot_that_is_a_symlink_is_not_served(asking: Visitor, folder: Path) -> None:
    link = folder / "results/shop/counts/v1/99.parquet"
    link.symlink_to(folder / "secret.txt")
    try:
        done = [asking.http.get(f"/api/live/counts?as={kind}") for kind in ("parquet", "csv")]
    finally:
        link.unlink()

    assert [one.json()["error"]["slug"] for one in done] == ["misplaced-file"] * 2
    assert PLANTED not in "".join(one.text for one in done)


@pytest.mark.parametrize(("key", "n"), [("a", 1), ("b's", 2), ("%3Cimg%20src=x%3E", 3)])
def test_the_row_of_a_key(asking: Visitor, key: str, n: int) -> None:
    answer = asking.get(f"/api/live/counts/{key}")

    assert answer["row"]["n"] == n
    assert answer["batch"] == 7


@pytest.mark.parametrize("key", ["c", "' OR '1'='1", "a' --", "\\' OR 1=1 --", "a\\"])
def test_a_key_is_a_value_and_nothing_else(asking: Visitor, key: str) -> None:
    done = asking.http.get(f"/api/live/counts/{key}")

    assert done.status_code == 404, done.text
    assert done.json()["error"]["slug"] == "unknown-name"


def test_the_last_value_of_a_key_may_have_slashes(asking: Visitor) -> None:
    answer = asking.get("/api/live/counts/a/b", 404)

    assert answer["error"]["what"] == "counts has no row for 'a/b'."


@pytest.mark.parametrize(
    ("sql", "slug"),
    [
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "sql-too-deep"),
        ("SELECT repeat('x', 2000000000)", "sql-memory"),
    ],
)
def test_a_query_over_a_limit_fails_at_once_and_the_next_one_works(
    asking: Visitor, sql: str, slug: str
) -> None:
    answer = asking.post("/api/sql", {"sql": sql}, 400)

    assert answer["error"]["slug"] == slug
    assert asking.post("/api/sql", {"sql": "SELECT 1"})["rows"] == [[1]]


def test_a_child_that_a_query_kills_is_not_reported_as_a_timeout(
    asking: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = sql_workers.QueryWorkers(config.load(asking.project.folder))
    monkeypatch.setattr(
        dying, "_command", (sys.executable, "-c", "print(flush=True); input(); raise SystemExit(3)")
    )
    try:
        with pytest.raises(SqlError) as caught:
            dying.ask("sql", 5.0, sql="SELECT 1", rows=1)
    finally:
        dying.close()

    assert caught.value.code == "sql-died"


def test_csv_contains_no_formulas() -> None:
    from headrace.web.live_tables import _cell

    assert [_cell(v) for v in ("=1+1", "@x", "-2", "plain", None, {"a": 1}, -2)] == [
        "'=1+1", "'@x", "'-2", "plain", "", '{"a": 1}', -2
    ]  # fmt: skip
