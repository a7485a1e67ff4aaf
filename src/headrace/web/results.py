"""Live tables over HTTP: all of them, one as rows, CSV or Parquet, and one row by its key.

The data is read by a worker (`project/workers.py`). A Parquet download is the snapshot as it is on
disk.
"""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

from starlette.responses import Response

from headrace.connectors import snapshots
from headrace.errors import ConfigError
from headrace.explore import live
from headrace.explore.names import column, spelled
from headrace.web import board
from headrace.web.site import Visit
from headrace.words import near

TIMEOUT_S = 5.0
ROWS = 1_000
ROWS_MAX = 10_000
DOWNLOAD_MAX = 256 * 1024 * 1024
PARQUET = "application/vnd.apache.parquet"


def listed(visit: Visit) -> Response:
    assert visit.site.watch is not None  # noqa: S101 - the app has one
    return visit.site.watch.shelf.answer(
        "live", lambda: {"tables": [_about(one) for one in board.live_tables(visit.site)]}
    )


def table(visit: Visit) -> dict[str, Any] | Response:
    about = _found(visit)
    form = visit.query.get("as", "json")
    if form == "parquet":
        return _parquet(about)
    rows = int(visit.number("rows", ROWS if form == "json" else ROWS_MAX, 1, ROWS_MAX))
    x = about["x"]
    order = f" ORDER BY {column(x)} DESC" if x else ""
    sql = f"SELECT * FROM {spelled(about['pipeline'], about['name'])}{order}"  # noqa: S608
    got = _ask(visit, sql, rows)
    got["rows"] = got["rows"][::-1] if x else got["rows"]
    if form == "csv":
        return _csv(about, got)
    if form != "json":
        raise ConfigError(
            f"A live table does not come as {form[:30]!r}.",
            why="It comes as json, csv or parquet.",
            slug="bad-value",
        )
    return {**_about(about), **got, "at": visit.now}


def row(visit: Visit) -> dict[str, Any]:
    """The current row of a key, for programs: a recommendation for this user, now."""
    about = _found(visit)
    keys = about["key"]
    given = visit.path["key"].split("/", max(0, len(keys) - 1))  # the last one may have slashes
    if len(given) != len(keys):
        what = f"its key is {', '.join(keys)}" if keys else "it has no key"
        raise ConfigError(
            f'"{about["name"]}" is not asked by {len(given)} values: {what}.',
            fix=f"GET /api/live/{about['name']}" + "".join(f"/{{{k}}}" for k in keys),
            slug="bad-value",
        )
    # As text: whatever type the column has, this is how its value is written.
    tests = [f"CAST({column(k)} AS STRING) = {_text(v)}" for k, v in zip(keys, given, strict=True)]
    where = " AND ".join(tests)
    sql = f"SELECT * FROM {spelled(about['pipeline'], about['name'])} WHERE {where}"  # noqa: S608
    got = _ask(visit, sql, 1)
    if not got["rows"]:
        raise ConfigError(
            f"{about['name']} has no row for {visit.path['key'][:100]!r}.",
            why="It may not have come yet, or was dropped since others are newer.",
            slug="unknown-name",
        )
    names = [column["name"] for column in got["columns"]]
    asof = got["tables"][0] if got["tables"] else {}
    return {"row": dict(zip(names, got["rows"][0], strict=True)), "as_of": asof.get("as_of"),
            "batch": asof.get("batch")}  # fmt: skip


def _text(value: str) -> str:
    """A literal of Spark's SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _ask(visit: Visit, sql: str, rows: int) -> dict[str, Any]:
    assert visit.site.watch is not None  # noqa: S101 - the app has one
    return visit.site.watch.workers.ask("sql", TIMEOUT_S, sql=sql, rows=rows)


def _found(visit: Visit) -> dict[str, Any]:
    """By QUERY where that says which, or by PIPELINE.QUERY."""
    name = visit.path["table"]
    known = board.live_tables(visit.site)
    mine = [one for one in known if name in (one["name"], f"{one['pipeline']}.{one['name']}")]
    if len(mine) == 1:
        return mine[0]
    names = sorted(f"{one['pipeline']}.{one['name']}" for one in known)
    meant = near(name, [*names, *(one["name"] for one in known)])
    words = f'Did you mean "{meant}"? ' if meant else ""
    raise ConfigError(
        f"There is {'more than one' if mine else 'no'} live table {name[:100]!r}.",
        why=f"{words}There is: {', '.join(names) or 'none yet'}.",
        fix="use PIPELINE.QUERY",
        slug="unknown-name",
    )


def _about(one: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != "path"}


def _parquet(about: dict[str, Any]) -> Response:
    content = snapshots.read(Path(about["path"]), _content)
    if content is None:
        raise _empty(about)
    return _download(content, about, ".parquet", PARQUET)


def _content(path: Path) -> bytes:
    with live.open_itself(path) as file:
        if os.fstat(file.fileno()).st_size > DOWNLOAD_MAX:
            raise ConfigError(
                f"The snapshot is larger than {DOWNLOAD_MAX // 1024**2} MB.",
                where=str(path),
                fix="copy the file itself",
                slug="sql-too-large",
            )
        return file.read()


def _csv(about: dict[str, Any], got: dict[str, Any]) -> Response:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([_cell(column["name"]) for column in got["columns"]])
    writer.writerows([_cell(value) for value in one] for one in got["rows"])
    # Who opens the file later cannot see that it is not all: its name says so.
    part = f"-first-{len(got['rows'])}" if got.get("is_cut") else ""
    content = buffer.getvalue().encode()
    return _download(content, about, f"{part}.csv", "text/csv; charset=utf-8")


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets a mark before it."""
    if isinstance(value, dict | list):
        value = json.dumps(value)
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return "" if value is None else value


def _download(content: bytes, about: dict[str, Any], ending: str, kind: str) -> Response:
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in about["name"])
    headers = {"content-disposition": f'attachment; filename="{name}{ending}"'}
    return Response(content, media_type=kind, headers=headers)


def _empty(about: dict[str, Any]) -> ConfigError:
    return ConfigError(
        f'"{about["name"]}" has no rows yet.',
        why="Its query has not committed a batch.",
        fix=f"headrace status {about['pipeline']}",
        slug="no-runs",
    )
