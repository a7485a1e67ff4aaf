"""Answers of `sql` for people and for programs, and the list of what can be asked."""

from __future__ import annotations

import contextlib
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.table import Table as Grid
from rich.text import Text

from headrace.cli import definitions, spinner
from headrace.cli import tables as shown
from headrace.errors import SetupError, SqlError, revived
from headrace.explore import names, translate
from headrace.explore.answer import Answer, AsOf, plain
from headrace.jsonfile import read_json
from headrace.model.health import clock
from headrace.model.runs import RunSpec
from headrace.project import tables
from headrace.project.workers import Workers
from headrace.project.workspace import Workspace
from headrace.supervisor import process

RIGHT = ("BIGINT", "INT", "DOUBLE", "FLOAT", "DECIMAL", "HUGEINT", "SMALLINT", "TINYINT", "LONG")


def ask(work: Workspace, text: str, rows_max: int, timeout_s: float) -> Answer:
    """In a child: a question that DuckDB does not end by itself, or that needs too much memory, is
    ended from outside."""
    with contextlib.closing(Workers(work.settings, count=1)) as children:
        told = children.ask("sql", timeout_s, sql=text, rows=rows_max, as_account=True)
    return Answer.from_json(told)


def ask_spark(work: Workspace, text: str, rows_max: int, timeout_s: float, quiet: bool) -> Answer:
    """The same question for a Spark of its own, in a driver that only answers it."""
    begin = time.monotonic()
    sql, views = _for_spark(text, tables.known_names(work))
    with tempfile.TemporaryDirectory(prefix="headrace-sql-") as folder:
        answer = Path(folder) / "answer.json"
        spec = RunSpec(
            run="",
            pipeline="sql",
            project=str(work.project),
            state=str(work.places.state),
            version=definitions.snapshot(work),
            profile=work.profile,
            file="",
            at=time.time(),
            question={"sql": sql, "tables": views, "rows_max": rows_max, "answer": str(answer)},
        )
        with spinner.shown("asking Spark (a JVM starts)", quiet=quiet):
            ended = process.to_the_end(work.places, spec, timeout_s)
        if ended.code != 0:
            kind = SetupError if ended.code == 3 else SqlError
            raise revived(ended.error or {}, kind)
        body = read_json(answer) or {}
    return Answer(
        columns=tuple(body["columns"]),
        types=tuple(body["types"]),
        rows=tuple(tuple(row) for row in body["rows"][:rows_max]),
        is_cut=len(body["rows"]) > rows_max,
        took_s=time.monotonic() - begin,
        tables=tuple(AsOf(**one) for one in body["tables"]),
    )


def _for_spark(text: str, known: names.Names) -> tuple[str, dict[str, dict[str, Any]]]:
    """The text with our tables as views, and what these views are. Other names are Spark's own."""
    tables: dict[str, dict[str, Any]] = {}
    views: dict[str, str] = {}

    def view_of(parts: tuple[str, ...]) -> str | None:
        found = known.look_up(parts)
        if found is None or (found.place is None and not found.is_for_spark):
            return None
        full = names.spelled(*parts)
        # Spark's temporary views have a name without a dot.
        view = views.setdefault(full, full if full.isidentifier() else f"headrace_{len(views)}")
        at = {"live": found.snapshots} if found.snapshots else {"sink": found.sink.fields()}
        tables[view] = {"name": found.name, "schema": found.schema, **at}
        return view

    return translate.for_spark(text, view_of), tables


def show(answer: Answer, *, json_: bool) -> None:
    if json_:
        shown.print_json(answer.to_json())
        return
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, kind in zip(answer.columns, answer.types, strict=True):
        is_number = kind.upper().startswith(RIGHT)
        grid.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in answer.rows:
        grid.add_row(*(_cell(value) for value in row))
    screen = shown.console()
    with screen.capture() as printed:
        screen.print(grid)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))
    click.secho(_footer(answer), dim=True, err=True)


def _footer(answer: Answer) -> str:
    count = len(answer.rows)
    rows = f"{'the first ' if answer.is_cut else ''}{count:,} row{'s' * (count != 1)}"
    parts = [f"{rows} in {answer.took_s * 1000:,.0f} ms"]
    for one in answer.tables:
        batch = f" (batch {one.batch})" if one.batch is not None else ""
        parts.append(f"{one.table} as of {clock(one.at) or 'never'}{batch}")
    return "; ".join(parts)


def show_tables(found: list[names.Table], *, json_: bool) -> None:
    if json_:
        body = [
            {
                "name": one.name,
                "kind": "live" if one.snapshots else one.sink.kind,
                "path": one.place,
                "written_by": one.written_by or None,
                "schema": one.schema,
            }
            for one in found
        ]
        shown.print_json({"tables": body})
        return
    if not found:
        click.echo("Nothing can be asked by name yet: no sinks, and nothing is deployed.")
        click.echo("Files are read by their path: SELECT * FROM parquet.`data/metrics`")
        return
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("table", "written by", "columns"):
        grid.add_column(name, no_wrap=name != "columns")
    for one in found:
        grid.add_row(names.spelled(one.name), one.written_by, one.schema or "")
    shown.console().print(grid)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, datetime):
        return Text(value.strftime("%Y-%m-%d %H:%M:%S.%f").removesuffix(".000000"))
    return Text(str(plain(value)))
