"""What queries of the page can reach: the committed files of known tables, and nothing else.

Every attack runs against real files, and the same limits hold whichever way a query names them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import config
from headrace.connectors.live_snapshots import LiveSnapshots
from headrace.errors import Error, SqlError
from headrace.explore import catalog, scan, sql_guard
from headrace.explore import query as questions
from headrace.explore.result import QueryResult
from headrace.model.pipeline import Definition, Query

PLANTED = "planted-in-a-file"
TOML = """
[project]
name = "test"
[sinks.kept]
kind = "parquet"
path = "data/kept"
[sinks.lines]
kind = "text"
path = "data/lines"
[sinks.swapped]
kind = "text"
path = "data/swapped"
[sinks.bypart]
kind = "text"
path = "data/bypart"
[sinks.aside]
kind = "text"
path = "data/aside"
[sinks.plain]
kind = "text"
path = "data/plain"
[sinks.linked]
kind = "text"
path = "data/linked"
[sinks.alias]
kind = "parquet"
path = "data/alias"
[sinks.moved]
kind = "text"
path = "data/moved"
"""

Ask = Callable[[str], QueryResult]


def filled(text: str, project: Path) -> str:
    file = project / "data" / "kept" / "UNCOMMITTED.parquet"
    return text.replace("{project}", str(project)).replace("{file}", str(file))


def all_of(table: str) -> str:
    return " ".join(("SELECT * FROM", table))


def commit(folder: Path, *files: Path) -> None:
    log = folder / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    entries = [
        {"path": f.as_uri(), "size": f.stat().st_size, "isDir": False, "action": "add"}
        for f in files
    ]
    (log / "0").write_text("\n".join(["v1", *map(json.dumps, entries)]))


def lines(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    return path


def rows(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [1], "level": [text]}), path)
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of all kinds; beside what is committed, files with PLANTED in them and links there."""
    folder = tmp_path_factory.mktemp("confined")
    (folder / "headrace.toml").write_text(TOML)
    secret = lines(folder / "secret" / "secret.txt", PLANTED)
    rows(folder / "secret" / "secret.parquet", PLANTED)
    data = folder / "data"
    kept = data / "kept"
    commit(kept, rows(kept / "day=1" / "a.parquet", "fine"))
    rows(kept / "UNCOMMITTED.parquet", PLANTED)
    rows(kept / "day=1" / "cut.parquet", PLANTED)
    rows(kept / "day=2" / "cut.parquet", PLANTED)
    lines(kept / "_temporary" / "x.txt", PLANTED)
    (kept / "link.parquet").symlink_to(folder / "secret" / "secret.parquet")
    (kept / "inside.parquet").symlink_to(kept / "UNCOMMITTED.parquet")
    (kept / "away").symlink_to(folder / "secret")
    commit(data / "lines", lines(data / "lines" / "a.txt", "fine"))
    (data / "lines" / "link.txt").symlink_to(secret)

    committed = lines(data / "swapped" / "a.txt", "fine")
    commit(data / "swapped", committed)
    committed.unlink()
    committed.symlink_to(secret)

    part = lines(data / "bypart" / "day=1" / "secret.txt", "fine")
    commit(data / "bypart", part)
    shutil.rmtree(part.parent)
    part.parent.symlink_to(folder / "secret")

    committed = lines(data / "aside" / "a.txt", "fine")
    commit(data / "aside", committed)
    lines(data / "aside" / "cut.txt", PLANTED)
    committed.unlink()
    committed.symlink_to(data / "aside" / "cut.txt")

    lines(data / "plain" / "a.txt", "fine")
    lines(data / "plain" / "_hidden.txt", PLANTED)
    lines(data / "linked" / "a.txt", "fine")
    (data / "linked" / "link.txt").symlink_to(secret)
    commit(data / "moved", secret)
    (data / "alias").symlink_to(kept)  # the operator's own link: the folder is declared by it

    book = LiveSnapshots(folder / "results" / "counts", ("id",), 100, {})
    for number, text in ((1, PLANTED), (2, "fine")):
        table = pa.table({"id": [1], "level": [text]})
        book.add(number, table, at=datetime(2026, 1, 1, tzinfo=UTC).timestamp(), is_whole=True)
    bad = folder / "results" / "bad"
    bad.mkdir()
    (bad / "7.parquet").symlink_to(folder / "secret" / "secret.parquet")
    return folder


@pytest.fixture(scope="module")
def known(project: Path) -> catalog.Catalog:
    facts = ("shop.py:1", ())
    rest = ("append", {}, None, "exactly-once", "", "id bigint, level string")
    live = [
        Query(name, *facts, {"kind": "live", "path": str(project / "results" / name)}, *rest)
        for name in ("counts", "bad")
    ]
    defined = Definition("shop", "dev", "v", "shop.py", (), tuple(live))
    return replace(catalog.collect(config.load(project), [defined]), is_confined=True)


@pytest.fixture
def ask(known: catalog.Catalog) -> Ask:
    return lambda text: questions.ask(text, known, timeout_s=60)


COMMITTED = [
    "SELECT level FROM kept",
    "SELECT level FROM parquet.`data/kept`",
    "SELECT level FROM PARQUET.`data/kept/`",
    "SELECT level FROM parquet.`{project}/data/kept`",
    "SELECT level FROM parquet.`data/kept/day=1`",
    "SELECT level FROM parquet.`data/kept/day=1/a.parquet`",
    "SELECT level FROM parquet.`data/plain/../kept/day=1`",
    "SELECT level FROM alias",
    "SELECT level FROM parquet.`data/alias/day=1`",
    "SELECT value FROM lines",
    "SELECT value FROM text.`data/lines/a.txt`",
    "SELECT value FROM plain",
    "SELECT value FROM text.`data/plain/a.txt`",
    "SELECT level FROM counts",
    "SELECT level FROM parquet.`results/counts`",
    "WITH kept AS (SELECT level FROM parquet.`data/kept`) SELECT * FROM kept",
    "WITH a AS (SELECT level FROM kept), b AS (SELECT * FROM a) (SELECT * FROM b)",
    "SELECT (SELECT max(level) FROM kept) FROM plain",
    "SELECT level FROM (SELECT * FROM kept UNION SELECT * FROM kept) ORDER BY level",
    "SELECT level FROM kept LATERAL VIEW explode(array(1)) t AS x",
    "SELECT filter(array(level), x -> x = 'fine')[0] FROM kept",
    "SELECT level FROM kept -- a comment\n/* and */ ",
]


@pytest.mark.parametrize("text", COMMITTED)
def test_committed_rows_are_answered_by_name_and_by_path(
    ask: Ask, project: Path, text: str
) -> None:
    assert ask(filled(text, project)).rows == (("fine",),)


NOT_COMMITTED = [
    "parquet.`data/kept/UNCOMMITTED.parquet`",
    "parquet.`data/kept/day=1/cut.parquet`",
    "parquet.`data/kept/day=2`",
    "parquet.`data/kept/inside.parquet`",
    "parquet.`data/alias/UNCOMMITTED.parquet`",
    "text.`data/kept/_spark_metadata/0`",
    "text.`data/kept/_spark_metadata`",
    "text.`data/kept/_temporary/x.txt`",
    "text.`data/plain/_hidden.txt`",
    "text.`data/lines/none.txt`",
    "parquet.`results/counts/1.parquet`",
    "text.`results/counts`",
]
OUTSIDE = [
    "parquet.`data/kept/link.parquet`",
    "parquet.`data/kept/away`",
    "parquet.`data/kept/away/secret.parquet`",
    "text.`data/kept/away/secret.txt`",
    "text.`data/lines/link.txt`",
    "text.`data/lines/../../secret/secret.txt`",
    "text.`data/kept/../../secret/secret.txt`",
    "text.`secret/secret.txt`",
    "text.`{project}/secret/secret.txt`",
    "text.`file://{project}/secret/secret.txt`",
    "text.`data`",
    "text.`/`",
    "text.`/proc/self/environ`",
    "text.`~/.bashrc`",
    "`text`.`secret/secret.txt`",
    "text.`http://127.0.0.1:1/x`",
]
MISPLACED = ["swapped", "bypart", "aside", "linked", "moved", "bad", "text.`data/linked`"]


@pytest.mark.parametrize("table", NOT_COMMITTED)
def test_what_is_not_committed_is_refused(ask: Ask, table: str) -> None:
    with pytest.raises(SqlError) as caught:
        ask(all_of(table))

    assert caught.value.code == "not-committed"


@pytest.mark.parametrize("table", OUTSIDE)
def test_no_path_leads_out_of_the_tables(ask: Ask, project: Path, table: str) -> None:
    with pytest.raises(SqlError) as caught:
        ask(filled(all_of(table), project))

    assert caught.value.code == "not-a-table"


@pytest.mark.parametrize("table", MISPLACED)
def test_a_link_among_the_files_of_a_table_is_refused(ask: Ask, table: str) -> None:
    with pytest.raises(SqlError) as caught:
        ask(all_of(table))

    assert caught.value.code == "misplaced-file"
    assert PLANTED not in str(caught.value)


def test_a_committed_file_that_is_gone_is_named(known: catalog.Catalog, tmp_path: Path) -> None:
    gone = lines(tmp_path / "lines" / "gone.txt", "fine")
    commit(gone.parent, gone, lines(gone.parent / "here.txt", "fine"))
    gone.unlink()

    with pytest.raises(SqlError) as caught:
        questions.ask(all_of(f"text.`{gone.parent}`"), replace(known, is_confined=False))

    assert (caught.value.code, caught.value.where) == ("committed-file-missing", str(gone))


ATTACKS = [
    # Statements inside of a SELECT.
    "WITH x AS (INSERT INTO kept VALUES (1, 'x') RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM kept RETURNING *) SELECT * FROM x",
    "WITH x AS (UPDATE kept SET id = 1 RETURNING *) SELECT * FROM x",
    "WITH x AS (COPY (SELECT 1) TO '{project}/data/kept/x.parquet') SELECT * FROM x",
    "WITH x AS (COPY kept TO '{project}/data/kept/day=1/a.parquet') SELECT 1",
    "SELECT * FROM (COPY (SELECT 1) TO '{project}/data/kept/x.parquet')",
    # A statement of another kind, or several.
    "DESCRIBE kept", "DESCRIBE TABLE kept", "DESCRIBE QUERY SELECT * FROM kept",
    "DESCRIBE parquet.`data/kept/UNCOMMITTED.parquet`", "DESCRIBE '{file}'",
    "SELECT * FROM (DESCRIBE '{file}')", "WITH x AS (DESCRIBE '{file}') SELECT * FROM x",
    "SUMMARIZE '{file}'", "SELECT * FROM (SUMMARIZE SELECT * FROM '{file}')",
    "SHOW TABLES", "SELECT * FROM (SHOW ALL TABLES)", "EXPLAIN SELECT * FROM kept",
    "EXPLAIN ANALYZE SELECT * FROM '{file}'", "SELECT 1; SELECT 2", "SELECT 1;\n--\n; SELECT 2",
    "ATTACH '{project}/x.db' AS x", "ATTACH '{project}/x.db'", "USE x", "DETACH memory",
    "PRAGMA database_list", "PRAGMA enable_profiling", "SET enable_external_access = true",
    "SET VARIABLE x = 1", "RESET allowed_paths", "INSTALL httpfs", "LOAD httpfs", "CALL glob('/*')",
    "COPY (SELECT 1) TO '{project}/data/kept/x.parquet'", "EXPORT DATABASE '{project}/x'",
    "IMPORT DATABASE '{project}/x'", "CREATE MACRO kept() AS TABLE SELECT 1",
    "CREATE VIEW v AS SELECT * FROM '{file}'", "CREATE TEMP TABLE x AS SELECT 1",
    "PREPARE x AS SELECT 1", "EXECUTE x", "CHECKPOINT", "VACUUM", "BEGIN", "CACHE TABLE kept",
    "ADD JAR '/x.jar'", "REFRESH TABLE kept", "MERGE INTO kept USING kept ON true WHEN MATCHED"
    " THEN DELETE",
    # Files by a text, wherever DuckDB would take one.
    "SELECT * FROM '{file}'", 'SELECT * FROM "{file}"', "SELECT * FROM `{file}`",
    "SELECT * FROM kept, '{file}'", "SELECT * FROM kept JOIN `{file}` USING (id)",
    "SELECT (SELECT max(level) FROM '{file}')", "SELECT * FROM kept WHERE id IN (FROM '{file}')",
    "FROM '{file}'", "TABLE `{file}`", "SELECT * FROM kept ORDER BY (SELECT id FROM `{file}`)",
    "SELECT * FROM kept LIMIT (SELECT id FROM `{file}`)",
    "SELECT * FROM (SELECT * FROM `{file}`) PIVOT (max(id) FOR level IN ('x'))",
    "SELECT * FROM (WITH `{file}` AS (SELECT 1) SELECT * FROM `{file}`), `{file}`",
    "WITH `{file}` AS (SELECT * FROM `{file}`) SELECT * FROM `{file}`",
    "WITH RECURSIVE `{file}` AS (SELECT 1 UNION ALL SELECT * FROM `{file}`) SELECT * FROM kept",
    "WITH `headrace:0` AS (SELECT 1) SELECT * FROM kept", "SELECT * FROM `headrace:0`, kept",
    # Quotes that a text replaced in the middle of another would open.
    "SELECT '\"headrace:0\" FROM read_text(''{project}/secret/secret.txt'')' FROM swapped",
    "SELECT '\"headrace:0\"', content FROM read_text('{project}/secret/secret.txt') --' FROM kept",
    # Functions that read.
    *(
        "SELECT * FROM FUNCTION('{file}')".replace("FUNCTION", function)
        for function in (
            "read_csv", "read_csv_auto", "read_text", "read_blob", "read_json", "read_json_auto",
            "read_json_objects", "read_ndjson", "read_ndjson_objects", "read_parquet",
            "parquet_scan", "parquet_schema", "parquet_metadata", "parquet_file_metadata",
            "parquet_kv_metadata", "parquet_bloom_probe", "parquet_full_metadata", "sniff_csv",
            "glob", "read_duckdb", "read_single_parquet_file", "query_table", "`read_text`",
            "main.read_text", "system.main.read_text", "READ_TEXT", "range_scan", "seq_scan",
            "arrow_scan", "pandas_scan", "python_map_function", "json_execute_serialized_sql",
            "st_read", "sqlite_scan", "postgres_scan", "iceberg_scan", "delta_scan", "summary",
        )
    ),
    "SELECT * FROM query('SELECT 1')", "SELECT * FROM duckdb_settings()", "SELECT * FROM pg_class",
    "SELECT * FROM duckdb_tables", "SELECT * FROM information_schema.tables",
    "SELECT * FROM sqlite_master", "SELECT * FROM system.information_schema.tables",
    "SELECT * FROM enable_logging()", "SELECT * FROM enable_profiling()",
    "SELECT * FROM duckdb_variables()", "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT getvariable('headrace:0') FROM kept", "SELECT main.getvariable('headrace:0') FROM kept",
    "SELECT list_transform([1], x -> getvariable('headrace:0')) FROM kept",
    "SELECT max(getvariable('headrace:0')) OVER () FROM kept",
    "SELECT * FROM kept LATERAL VIEW read_text('{project}/secret/secret.txt') AS x",
    "SELECT * FROM kept, LATERAL (SELECT * FROM read_text('{project}/secret/secret.txt'))",
    "SELECT * FROM kept LATERAL VIEW explode((SELECT list(content) FROM"
    " read_text('{project}/secret/secret.txt'))) AS x",
    "SELECT * FROM unnest((SELECT list(content) FROM read_text('{project}/secret/secret.txt')))",
    "SELECT * FROM VALUES ((SELECT content FROM read_text('{project}/secret/secret.txt')))",
    "SELECT current_setting('allowed_paths')", "SELECT getenv('HOME')", "SELECT $1", "SELECT ?",
    "SELECT ${env:HOME}", "SELECT * FROM known", "SELECT * FROM scans", "SELECT * FROM conn",
    # Characters that look like others.
    "SELECT * FROM ‘{project}/secret/secret.txt’", "SELECT * FROM text.`data/lines/․․/x`",
    "SELECT * FROM text.｀secret/secret.txt｀", "SELECT * FROM text.`data/lines\x00/../x`",
    "SELECT/**/*/**/FROM/**/read_text('{project}/secret/secret.txt')",
    "SELECT 1 /* */ FROM kept -- */ UNION SELECT content FROM read_text('x')\n, pg_class",
]  # fmt: skip


@pytest.mark.parametrize("text", ATTACKS)
def test_no_question_reads_or_changes_anything_else(ask: Ask, project: Path, text: str) -> None:
    before = sorted(project.rglob("*"))

    with pytest.raises(Error) as caught:
        ask(filled(text, project))

    assert caught.value.code in (
        "not-a-query", "not-a-table", "unknown-table", "sql-syntax", "sql-failed", "misplaced-file",
        "not-committed",
    )  # fmt: skip
    assert PLANTED not in str(caught.value)
    assert sorted(project.rglob("*")) == before


@pytest.mark.parametrize(
    "text",
    [
        "WITH x AS (COPY (SELECT 1) TO '/tmp/x.parquet') SELECT * FROM x",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "SELECT * FROM (WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x)",
        "SELECT (WITH x AS (UPDATE t SET a = 1 RETURNING *) SELECT a FROM x)",
        "SELECT 1; SELECT 2",
        "DESCRIBE t",
        "FROM (SHOW ALL TABLES)",
        "SUMMARIZE t",
        "FROM 'x.parquet'",
        "FROM t AT (VERSION => 1), 'x.parquet'",
        "SELECT * FROM memory.main.t",
        'WITH "x.parquet" AS (SELECT 1) SELECT 1',
        "SELECT * FROM t PIVOT (max(a) FOR b IN (SELECT b FROM 'x.parquet'))",
        "SELECT * FROM t ORDER BY (SELECT max(content) FROM read_text('x'))",
        "SELECT list_transform([1], lambda x: getvariable('x'))",
        "SELECT * FROM system.main.range(3)",
        "SELECT COLUMNS(c -> getenv(c) IS NULL) FROM t",
        "PIVOT t ON a",
        "CALL range(3)",
        "EXPLAIN SELECT 1",
    ],
)
def test_the_guard_judges_what_duckdb_itself_understands(text: str) -> None:
    """Also where the translation lets something pass."""
    with duckdb.connect(":memory:") as conn:
        (tree,) = conn.execute("SELECT json_serialize_sql($sql)", {"sql": text}).fetchone() or ()

    with pytest.raises(SqlError) as caught:
        sql_guard.check(json.loads(tree), {"t"})

    assert caught.value.code in ("not-a-query", "not-a-table")


def test_a_text_that_holds_the_name_of_a_table_stays_a_text(ask: Ask) -> None:
    answer = ask("SELECT '\"headrace:0\"', '(FROM x)' FROM kept")

    assert answer.rows == (('"headrace:0"', "(FROM x)"),)


@pytest.fixture
def swap(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, Callable[[], None]], None]]:
    """`at(name, change)`: the change happens right after that step of an answer."""

    def at(step: str, change: Callable[[], None]) -> None:
        module = scan if step == "_resolve_links" else questions
        done = getattr(module, step)

        def stepped(*args: object, **more: object) -> object:
            result = done(*args, **more)
            change()
            return result

        monkeypatch.setattr(module, step, stepped)

    yield at
    file = project / "data" / "lines" / "a.txt"
    file.unlink()
    lines(file, "fine")


@pytest.mark.parametrize(
    ("step", "paths_max", "code"),
    [
        ("_resolve_links", 1000, "misplaced-file"),
        ("_restrict", 1000, "sql-failed"),
        ("_resolve_links", 0, "sql-failed"),  # a table of many files
        ("_restrict", 0, "sql-failed"),
    ],
)
def test_a_file_that_becomes_a_link_between_check_and_read_is_refused(
    ask: Ask,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[str, Callable[[], None]], None],
    step: str,
    paths_max: int,
    code: str,
) -> None:
    monkeypatch.setattr(questions, "PATHS_MAX", paths_max)
    file = project / "data" / "lines" / "a.txt"

    def change() -> None:
        file.unlink()
        os.symlink(project / "secret" / "secret.txt", file)

    swap(step, change)

    with pytest.raises(SqlError) as caught:
        ask("SELECT * FROM lines")

    assert caught.value.code == code
    assert PLANTED not in str(caught.value)


# ---- the command line may name any file of its account, and still never sees half a batch


def test_the_command_line_reads_any_path_but_of_a_stream_only_what_is_committed(
    known: catalog.Catalog, project: Path
) -> None:
    free = replace(known, is_confined=False)
    assert questions.ask("SELECT * FROM text.`secret/secret.txt`", free).rows == ((PLANTED,),)
    assert questions.ask("SELECT * FROM moved", free).rows == ((PLANTED,),)  # as the log says
    above = questions.ask("SELECT level FROM parquet.`data/kept`", free).rows
    assert above == (("fine",),)
    for path in ("UNCOMMITTED.parquet", "day=1/cut.parquet", "_spark_metadata/0"):
        with pytest.raises(SqlError) as caught:
            questions.ask(all_of(f"text.`data/kept/{path}`"), free)
        assert caught.value.code == "not-committed"


def test_the_folder_above_a_stream_s_folder_shows_only_what_is_committed(
    known: catalog.Catalog, tmp_path: Path
) -> None:
    commit(tmp_path / "up" / "kept", lines(tmp_path / "up" / "kept" / "a.txt", "fine"))
    lines(tmp_path / "up" / "kept" / "cut.txt", PLANTED)
    lines(tmp_path / "up" / "b.txt", "also")
    free = replace(known, is_confined=False)

    answer = questions.ask(all_of(f"text.`{tmp_path}/up` ORDER BY 1"), free)

    assert answer.rows == (("also",), ("fine",))


# ---- nesting


DEEP = [
    "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "SELECT " + "(" * 100 + "1" + ")" * 100,
    "SELECT " + "NOT " * 3000 + "true",
    "SELECT " + "1 + " * 3000 + "1",
    "SELECT " + "abs(" * 3000 + "1" + ")" * 3000,
    "SELECT * FROM " + "(SELECT * FROM " * 3000 + "kept" + ")" * 3000,
    "SELECT " + "CASE WHEN true THEN " * 3000 + "1" + " END" * 3000,
]


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:20])
def test_sql_that_is_nested_too_deeply_is_refused_in_words(ask: Ask, text: str) -> None:
    with pytest.raises(SqlError) as caught:
        ask(text)

    assert caught.value.code == "sql-too-deep"
