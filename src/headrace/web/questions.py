"""SQL on the page: what can be asked, and answers with their limits.

Spark's SQL never runs in Spark here: it can run code. It is translated and answered by DuckDB, in a
child that is killed when it takes too long (`project/workers.py`, `explore/ask.py`).
"""

from __future__ import annotations

import logging
from typing import Any

from starlette.responses import Response

from headrace.errors import ConfigError
from headrace.explore.names import spelled
from headrace.project import tables as known
from headrace.web.site import Visit

logger = logging.getLogger(__name__)

TIMEOUT_S = 5.0
ROWS = 200
ROWS_MAX = 1_000
TEXT_MAX = 20_000


def tables(visit: Visit) -> Response:
    assert visit.site.watch is not None  # noqa: S101 - the app has one
    return visit.site.watch.shelf.answer("tables", lambda: _tables(visit))


def _tables(visit: Visit) -> dict[str, Any]:
    """Names as they are written in a question, with their columns as Spark's DDL."""
    found = known.listed(visit.site.work())
    return {
        "tables": [
            {
                "name": spelled(*one.name.split(".", 1)) if "." in one.name else spelled(one.name),
                "kind": "live" if one.snapshots else one.sink.kind,
                "written_by": one.written_by or None,
                "schema": one.schema,
            }
            for one in found
        ],
        "limits": {"rows": ROWS_MAX, "seconds": TIMEOUT_S},
    }


def ask(visit: Visit) -> dict[str, Any]:
    sql = (visit.text("sql", TEXT_MAX) or "").strip()
    if not sql:
        raise ConfigError("There is no question.", fix='send {"sql": "SELECT …"}', slug="no-sql")
    given = visit.body.get("rows", ROWS)
    is_number = isinstance(given, int) and not isinstance(given, bool)
    if not is_number or not 1 <= given <= ROWS_MAX:
        raise ConfigError(
            f"rows has to be a whole number from 1 to {ROWS_MAX:,}.", slug="bad-value"
        )
    assert visit.site.watch is not None  # noqa: S101 - the app has one
    assert visit.who is not None  # noqa: S101 - the gate lets nobody else in
    visit.site.watch.questions.check(visit.who.by, "a question asked")
    logger.info("%s asks: %s", visit.who.by, " ".join(sql.split())[:500])
    got = visit.site.watch.workers.ask("sql", TIMEOUT_S, sql=sql, rows=given)
    return {**got, "at": visit.now}
