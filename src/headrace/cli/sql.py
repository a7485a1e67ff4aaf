"""`sql`: query committed results, and print rows for people and JSON for programs."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.table import Table as Grid
from rich.text import Text

from headrace.cli import output as printing
from headrace.cli import pipeline_definitions, spinner
from headrace.cli.options import Options, Seconds, pass_options_and_json
from headrace.errors import SetupError, SqlError, error_from_dict
from headrace.explore import catalog, dialect
from headrace.explore.result import AsOf, QueryResult, plain
from headrace.json_file import read_json
from headrace.model.times import clock
from headrace.project import tables
from headrace.project.sql_workers import QueryWorkers
from headrace.project.workspace import Workspace
from headrace.supervisor import process

RIGHT = ("BIGINT", "INT", "DOUBLE", "FLOAT", "DECIMAL", "HUGEINT", "SMALLINT", "TINYINT", "LONG")


@click.command()
@click.argument("text", metavar="[SQL]", required=False)
@click.option(
    "-n",
    "rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Show at most this many rows.",
)
@click.option(
    "--timeout",
    type=Seconds(),
    default="60s",
    show_default=True,
    help="Cancel the query after this time.",
)
@click.option("--spark", is_flag=True, help="Use Spark instead of DuckDB; starts a JVM.")
@pass_options_and_json
def sql(
    options: Options, text: str | None, rows: int, timeout: float, spark: bool, json_: bool
) -> None:
    """Query committed results with SQL.

    \b
    Tables are sinks and streams (by name) and files (by path):
      headrace sql "SELECT level, count(*) FROM metrics GROUP BY level"
      headrace sql "SELECT * FROM parquet.`data/metrics` LIMIT 5"

    Queries use Spark's SQL dialect, but run in DuckDB: no JVM is started, and nothing is changed.
    A query sees only committed data, never part of a batch. Pass `-` as SQL to read the query from
    standard input. Without SQL, the tables are listed.
    """
    work = options.open()
    if text is None:
        print_tables(tables.list_tables(work), json_=json_)
        return
    query = sys.stdin.read() if text == "-" else text
    if spark:
        result = _query_spark(work, query, rows, timeout, quiet=json_)
    else:
        result = _query_duckdb(work, query, rows, timeout)
    print_result(result, json_=json_)


def _query_duckdb(work: Workspace, text: str, rows_max: int, timeout_s: float) -> QueryResult:
    """In a child process, which can be killed if a query takes too long or too much memory."""
    with contextlib.closing(QueryWorkers(work.settings, count=1)) as children:
        body = children.ask("sql", timeout_s, sql=text, rows=rows_max, as_account=True)
    return QueryResult.from_json(body)


def _query_spark(
    work: Workspace, text: str, rows_max: int, timeout_s: float, quiet: bool
) -> QueryResult:
    """In a driver that runs only this query."""
    begin = time.monotonic()
    sql, views = _for_spark(text, tables.known_names(work))
    with tempfile.TemporaryDirectory(prefix="headrace-sql-") as folder:
        answer = Path(folder) / "answer.json"
        question = {"sql": sql, "tables": views, "rows_max": rows_max, "answer": str(answer)}
        spec = pipeline_definitions.child_spec(work, pipeline_definitions.snapshot(work), "sql")
        spec = replace(spec, question=question)
        with spinner.show("running the query in Spark (starts a JVM)", quiet=quiet):
            ended = process.to_the_end(work.places, spec, timeout_s)
        if ended.code != 0:
            kind = SetupError if ended.code == 3 else SqlError
            raise error_from_dict(ended.error or {}, kind)
        body = read_json(answer) or {}
    return QueryResult(
        columns=tuple(body["columns"]),
        types=tuple(body["types"]),
        rows=tuple(tuple(row) for row in body["rows"][:rows_max]),
        is_cut=len(body["rows"]) > rows_max,
        took_s=time.monotonic() - begin,
        tables=tuple(AsOf(**table) for table in body["tables"]),
    )


def _for_spark(text: str, known: catalog.Catalog) -> tuple[str, dict[str, dict[str, Any]]]:
    """The text with our tables replaced by views, and the views. Other names are left to Spark."""
    tables: dict[str, dict[str, Any]] = {}
    views: dict[str, str] = {}

    def view_of(parts: tuple[str, ...]) -> str | None:
        found = known.look_up(parts)
        if found is None or (found.place is None and not found.is_for_spark):
            return None
        full = catalog.sql_name(*parts)
        # The name of a temporary view has no dot.
        view = views.setdefault(full, full if full.isidentifier() else f"headrace_{len(views)}")
        at = {"live": found.snapshots} if found.snapshots else {"sink": found.sink.fields()}
        tables[view] = {"name": found.name, "schema": found.schema, **at}
        return view

    return dialect.translate_for_spark(text, view_of), tables


def print_result(result: QueryResult, *, json_: bool) -> None:
    if json_:
        printing.print_json(result.to_json())
        return
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, kind in zip(result.columns, result.types, strict=True):
        is_number = kind.upper().startswith(RIGHT)
        grid.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in result.rows:
        grid.add_row(*(_cell(value) for value in row))
    screen = printing.console()
    with screen.capture() as printed:
        screen.print(grid)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))
    click.secho("\n" + _footer(result), dim=True, err=True)  # apart from the rows, even in `2>&1 |`


def _footer(result: QueryResult) -> str:
    count = len(result.rows)
    rows = f"{'the first ' if result.is_cut else ''}{count:,} row{'s' * (count != 1)}"
    parts = [f"{rows} in {result.took_s * 1000:,.0f} ms"]
    for table in result.tables:
        batch = f" (batch {table.batch})" if table.batch is not None else ""
        as_of = f"as of {clock(table.at)}" if table.at else "without committed data"
        parts.append(f"{table.table} {as_of}{batch}")
    return "; ".join(parts)


def print_tables(found: list[catalog.Table], *, json_: bool) -> None:
    if json_:
        body = [
            {
                "name": table.name,
                "kind": "live" if table.snapshots else table.sink.kind,
                "path": table.place,
                "written_by": table.written_by or None,
                "schema": table.schema,
            }
            for table in found
        ]
        printing.print_json({"tables": body})
        return
    if not found:
        click.echo("No tables yet: the project declares no sinks, and nothing is deployed.")
        click.echo("Read files by path: SELECT * FROM parquet.`data/metrics`")
        return
    grid = printing.grid("table", "written by", "columns", wrap=["columns"])
    for table in found:
        grid.add_row(catalog.sql_name(table.name), table.written_by, table.schema or "")
    printing.console().print(grid)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, datetime):
        return Text(value.strftime("%Y-%m-%d %H:%M:%S.%f").removesuffix(".000000") + "Z")
    return Text(str(plain(value)))
