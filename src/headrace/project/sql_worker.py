"""`python -m headrace.project.sql_worker PROJECT PROFILE`: runs queries, one JSON line each.

The page and `headrace sql` start it as a child (`sql_workers`), so that a query can be killed
and cannot take all memory. It also keeps DuckDB and Arrow out of the web process, which is open to
the network. Its first line says that it is ready; it ends with its stdin.
Invariant: one line in, one line out, for every query.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace import config
from headrace.config import Settings
from headrace.errors import Error, SqlError
from headrace.explore import catalog
from headrace.explore import query as explore_query
from headrace.explore.quarantine import over_time, quarantines
from headrace.project import tables
from headrace.project.workspace import Workspace

MEMORY_BYTES = 2 * 1024**3
ORPHAN_S = 5.0  # on top of the timeout, after which a living parent would have killed it
CELL_MAX = 10_000
ANSWER_BYTES = 5 * 1024 * 1024


def main() -> int:
    settings = config.load(Path(sys.argv[1]), sys.argv[2])
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    explore_query.prepare()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(answer(settings, line) + "\n")
        sys.stdout.flush()
    return 0


def answer(settings: Settings, line: str) -> str:
    try:
        asked = json.loads(line)
        # A thread in C: it ends the process even during a call that cannot be interrupted.
        faulthandler.dump_traceback_later(float(asked["timeout_s"]) + ORPHAN_S, exit=True)
        body = OPERATIONS[asked["what"]](settings, asked)
        text = json.dumps({"ok": body})
        if len(text) > ANSWER_BYTES and not asked.get("as_account"):
            raise SqlError(
                f"The result is larger than {ANSWER_BYTES // 1024**2} MB.",
                fix="Select fewer rows (LIMIT) or fewer columns.",
                slug="sql-too-large",
            )
        return text
    except Error as exc:
        return json.dumps({"error": exc.as_dict()})
    except MemoryError:
        return json.dumps({"error": explore_query.out_of_memory().as_dict()})
    except Exception as exc:  # a boundary: every request gets a reply
        traceback.print_exc()
        what, fix = "The query failed.", "Simplify the query, or run it with headrace sql."
        error = SqlError(
            what, why=f"Unexpected error: {type(exc).__name__}.", fix=fix, slug="sql-failed"
        )
        return json.dumps({"error": error.as_dict()})
    finally:
        faulthandler.cancel_dump_traceback_later()


def load_names(settings: Settings) -> catalog.Catalog:
    return replace(tables.known_names(Workspace(settings)), is_confined=True)


def _sql(settings: Settings, asked: Mapping[str, Any]) -> dict[str, Any]:
    """`as_account`: for a user who may read all files of this account anyway. Lifts the limits on
    paths and size."""
    is_free = bool(asked.get("as_account"))
    got = explore_query.ask(
        asked["sql"],
        replace(load_names(settings), is_confined=not is_free),
        rows_max=int(asked["rows"]),
        timeout_s=float(asked["timeout_s"]),
    )
    body = got.to_json()
    if not is_free:
        body["rows"] = [[_short(value) for value in row] for row in body["rows"]]
    return body


def _quarantine(settings: Settings, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Records without their raw bytes; their text is safe to show."""
    all_names = load_names(settings)
    found = []
    for quarantine in quarantines(all_names, int(asked["rows"])):
        body = quarantine.to_json() | {"over_time": over_time(all_names, quarantine)}
        for record in body["newest"]:
            del record["raw"]
        found.append(body)
    return {"quarantines": found}


OPERATIONS: Mapping[str, Callable[[Settings, Mapping[str, Any]], dict[str, Any]]] = {
    "sql": _sql,
    "quarantine": _quarantine,
}


def _short(value: Any) -> Any:
    """Cut long cells and show their length instead."""
    if isinstance(value, str) and len(value) > CELL_MAX:
        return f"{value[:CELL_MAX]}… ({len(value):,} characters)"
    if isinstance(value, list | dict):
        text = json.dumps(value)
        return f"{text[:CELL_MAX]}… ({len(text):,} characters)" if len(text) > CELL_MAX else value
    return value


if __name__ == "__main__":
    sys.exit(main())
