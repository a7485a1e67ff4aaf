"""Live tables over HTTP: the list, one table as JSON, CSV or Parquet, and one row by its key.

A worker reads the data (`project/sql_workers.py`). A Parquet download is the snapshot file
itself.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from starlette.responses import Response

from headrace.connectors import live_snapshots
from headrace.errors import ConfigError
from headrace.explore import live_tables
from headrace.explore.catalog import column, sql_name
from headrace.model.times import parse_time
from headrace.project import tables
from headrace.spelling import closest
from headrace.state import definitions
from headrace.web.visit import Site, Visit

TIMEOUT_S = 5.0
ROWS = 1_000
ROWS_MAX = 10_000
DOWNLOAD_MAX = 256 * 1024 * 1024
PARQUET = "application/vnd.apache.parquet"


def find_all(site: Site) -> list[dict[str, Any]]:
    """Every hr.live in the deployed pipelines: name, chart, and the folder of its snapshots."""
    work = site.workspace()
    known = tables.known_names(work).tables
    found = []
    for definition in definitions.deployed(work.places):
        for query in definition.queries:
            if query.sink.get("kind") == live_tables.KIND:
                name = (definition.pipeline, query.name)
                place = known[name].place if name in known else None
                found.append(
                    {
                        "pipeline": definition.pipeline,
                        "name": query.name,
                        "key": list(query.sink.get("key") or ()),
                        "chart": query.sink.get("chart"),
                        "x": query.sink.get("x"),
                        "y": list(query.sink.get("y") or ()),
                        "path": place or site.settings.result(*name),
                    }
                )
    return found


def describe(table: dict[str, Any]) -> dict[str, Any]:
    """Without its folder."""
    return {key: value for key, value in table.items() if key != "path"}


def current_window(xs: Iterable[Any], now: float) -> str | None:
    """The newest of the times `xs`, if a window that starts there has not ended by `now`: its value
    still grows, so it is drawn differently.

    Windows are as long as the smallest distance between two of them. None where x is not a time.
    """
    times = {parse_time(x): x for x in xs if isinstance(x, str) and "T" in x}
    ordered = sorted(time for time in times if time is not None)
    if len(ordered) < 2:
        return None
    length_s = min(after - before for before, after in pairwise(ordered))
    return times[ordered[-1]] if ordered[-1] + length_s > now else None


def list_tables(visit: Visit) -> Response:
    return visit.feed.cache.answer(
        "live", lambda: {"tables": [describe(table) for table in find_all(visit.site)]}
    )


def table(visit: Visit) -> dict[str, Any] | Response:
    about = _find_table(visit)
    form = visit.query.get("as", "json")
    if form == "parquet":
        return _parquet(about)
    rows = int(visit.number("rows", ROWS if form == "json" else ROWS_MAX, 1, ROWS_MAX))
    x = about["x"]
    order = f" ORDER BY {column(x)} DESC" if x else ""
    sql = f"SELECT * FROM {sql_name(about['pipeline'], about['name'])}{order}"  # noqa: S608
    got = _ask(visit, sql, rows)
    got["rows"] = got["rows"][::-1] if x else got["rows"]
    if form == "csv":
        return _csv(about, got)
    if form != "json":
        raise ConfigError(
            f"Invalid value for `as`: {form[:30]!r}.",
            why="Allowed: json, csv, parquet.",
            slug="bad-value",
        )
    xs = [row[_names(got).index(x)] for row in got["rows"]] if x in _names(got) else []
    current = current_window(xs, visit.now)
    return {**describe(about), **got, "at": visit.now, "current_window": current}


def row(visit: Visit) -> dict[str, Any]:
    """The current row of a key, for programs."""
    about = _find_table(visit)
    keys = about["key"]
    given = visit.path["key"].split("/", max(0, len(keys) - 1))  # the last one may have slashes
    if len(given) != len(keys):
        raise ConfigError(
            f"Wrong number of key values for {about['name']!r}: {len(given)}.",
            why=f"Its key is {', '.join(keys)}." if keys else "It has no key.",
            fix=f"GET /api/live/{about['name']}" + "".join(f"/{{{k}}}" for k in keys),
            slug="bad-value",
        )
    # Compared as text: the path has no types.
    tests = [f"CAST({column(k)} AS STRING) = {_text(v)}" for k, v in zip(keys, given, strict=True)]
    where = " AND ".join(tests)
    sql = f"SELECT * FROM {sql_name(about['pipeline'], about['name'])} WHERE {where}"  # noqa: S608
    got = _ask(visit, sql, 1)
    if not got["rows"]:
        raise ConfigError(
            f"{about['name']} has no row for {visit.path['key'][:100]!r}.",
            why="The row has not arrived yet, or it was removed to make room for newer keys.",
            slug="unknown-name",
        )
    read = got["tables"][0] if got["tables"] else {}
    row = dict(zip(_names(got), got["rows"][0], strict=True))
    return {"row": row, "as_of": read.get("as_of"), "batch": read.get("batch")}


def _text(value: str) -> str:
    """A string literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _ask(visit: Visit, sql: str, rows: int) -> dict[str, Any]:
    return visit.feed.workers.ask("sql", TIMEOUT_S, sql=sql, rows=rows)


def _find_table(visit: Visit) -> dict[str, Any]:
    """By QUERY if that is unique, or by PIPELINE.QUERY."""
    name = visit.path["table"]
    known = find_all(visit.site)
    mine = [t for t in known if name in (t["name"], f"{t['pipeline']}.{t['name']}")]
    if len(mine) == 1:
        return mine[0]
    names = sorted(f"{t['pipeline']}.{t['name']}" for t in known)
    meant = closest(name, [*names, *(t["name"] for t in known)])
    words = f'Did you mean "{meant}"? ' if meant else ""
    raise ConfigError(
        f"{'More than one' if mine else 'No'} live table is named {name[:100]!r}.",
        why=f"{words}Live tables: {', '.join(names) or 'none yet'}.",
        fix="Use PIPELINE.QUERY as the name.",
        slug="unknown-name",
    )


def _names(got: dict[str, Any]) -> list[str]:
    return [column["name"] for column in got["columns"]]


def _parquet(about: dict[str, Any]) -> Response:
    content = live_snapshots.read(Path(about["path"]), _content)
    if content is None:
        raise ConfigError(
            f'"{about["name"]}" has no rows yet.',
            why="Its query has not committed a batch.",
            fix=f"headrace status {about['pipeline']}",
            slug="no-runs",
        )
    return _download(content, about, ".parquet", PARQUET)


def _content(path: Path) -> bytes:
    with live_tables.open_itself(path) as file:
        if os.fstat(file.fileno()).st_size > DOWNLOAD_MAX:
            raise ConfigError(
                f"The snapshot is larger than {DOWNLOAD_MAX // 1024**2} MB.",
                where=str(path),
                fix="Copy the file from its path on the server.",
                slug="sql-too-large",
            )
        return file.read()


def _csv(about: dict[str, Any], got: dict[str, Any]) -> Response:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerows([_cell(value) for value in row] for row in (_names(got), *got["rows"]))
    # The file itself cannot say that it is incomplete, so its name does.
    part = f"-first-{len(got['rows'])}" if got.get("is_cut") else ""
    content = buffer.getvalue().encode()
    return _download(content, about, f"{part}.csv", "text/csv; charset=utf-8")


def _cell(value: Any) -> Any:
    """Puts an apostrophe before a text that a spreadsheet would take for a formula."""
    if isinstance(value, dict | list):
        value = json.dumps(value)
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return "" if value is None else value


def _download(content: bytes, about: dict[str, Any], ending: str, kind: str) -> Response:
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in about["name"])
    headers = {"content-disposition": f'attachment; filename="{name}{ending}"'}
    return Response(content, media_type=kind, headers=headers)
