"""SQL on the page: the tables that can be queried, and queries with limits.

Queries in Spark SQL never run in Spark, which could execute code. DuckDB runs their translation, in
a child process that is killed on a timeout (`project/sql_workers.py`, `explore/query.py`).
"""

from __future__ import annotations

import logging
from typing import Any

from starlette.responses import Response

from headrace.errors import ConfigError
from headrace.explore.catalog import sql_name
from headrace.project import tables as known
from headrace.web.visit import Visit

logger = logging.getLogger(__name__)

TIMEOUT_S = 5.0
ROWS = 200
ROWS_MAX = 1_000
TEXT_MAX = 20_000


def tables(visit: Visit) -> Response:
    return visit.feed.cache.answer("tables", lambda: _tables(visit))


def _tables(visit: Visit) -> dict[str, Any]:
    """Names as a query writes them, with their columns as Spark DDL."""
    return {
        "tables": [
            {
                "name": sql_name(*table.name.split(".", 1)),
                "kind": "live" if table.snapshots else table.sink.kind,
                "written_by": table.written_by or None,
                "schema": table.schema,
            }
            for table in known.list_tables(visit.site.workspace())
        ],
        "limits": {"rows": ROWS_MAX, "seconds": TIMEOUT_S},
    }


def run_query(visit: Visit) -> dict[str, Any]:
    sql = (visit.text("sql", TEXT_MAX) or "").strip()
    if not sql:
        raise ConfigError("The query is empty.", fix='Send {"sql": "SELECT …"}.', slug="no-sql")
    given = visit.body.get("rows", ROWS)
    is_number = isinstance(given, int) and not isinstance(given, bool)
    if not is_number or not 1 <= given <= ROWS_MAX:
        raise ConfigError(f"rows must be an integer from 1 to {ROWS_MAX:,}.", slug="bad-value")
    visit.feed.sql_limit.check(visit.user.by, "queries")
    logger.info("%s queries: %s", visit.user.by, " ".join(sql.split())[:500])
    got = visit.feed.workers.ask("sql", TIMEOUT_S, sql=sql, rows=given)
    return {**got, "at": visit.now}
