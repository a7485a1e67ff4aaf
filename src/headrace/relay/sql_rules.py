"""Evaluates rules with SQL over live tables and committed files: `[rules.NAME] sql = "SELECT …"`.

A rule holds while its SQL returns rows. Each query runs in a child process with limits
(`project/sql_workers.py`); the results are in `sqlrules.json`, which the supervisor reads.
Invariant: a failed query is the problem of its rule, and no query runs longer than TIMEOUT_S.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from headrace.alerts.rules import rule_settings
from headrace.errors import Error
from headrace.failures.redaction import redact
from headrace.model.rules import SqlResult
from headrace.project.sql_workers import QueryWorkers
from headrace.project.workspace import Workspace
from headrace.secrets import resolved_values
from headrace.state import sql_rules

TIMEOUT_S = 10.0
ROUND_S = 20.0  # no query starts after this: the next round continues
ROWS_MAX = 1_000
FIRST_CHARS = 300


class SqlRules:
    """Owns one child process, which starts with the first query. `clock` is monotonic."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._workers: QueryWorkers | None = None
        self._due: dict[str, float] = {}
        self._results: dict[str, SqlResult] | None = None

    def tick(self, work: Workspace) -> list[str]:
        """The current problems."""
        try:
            wanted = rule_settings.sql_of(work.settings)
        except Error as exc:
            return [f"rules with SQL are not evaluated: {exc.what}"]
        if self._results is None:
            self._results = sql_rules.read(work.places)  # of an earlier relay: since when they hold
        before = self._results
        results = {name: one for name, one in before.items() if name in wanted}
        for name, (sql, every_s) in self._list_due(wanted):
            self._due[name] = self._clock() + every_s
            results[name] = self._evaluate(work, name, sql, every_s, results.get(name))
        if results != before:
            try:
                sql_rules.write(work.places, results.values())
            except OSError as exc:
                return [f"sqlrules.json could not be written: {exc.strerror or exc}"]
        self._results = results
        return [f"rule {one.rule}: {one.problem}" for one in results.values() if one.problem]

    def close(self) -> None:
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def _list_due(
        self, wanted: Mapping[str, tuple[str, float]]
    ) -> list[tuple[str, tuple[str, float]]]:
        self._due = {name: at for name, at in self._due.items() if name in wanted}
        now = self._clock()
        due = sorted(
            (self._due.get(name, 0.0), name) for name in wanted if now >= self._due.get(name, 0.0)
        )
        most = max(1, int(ROUND_S / TIMEOUT_S))
        return [(name, wanted[name]) for _, name in due[:most]]

    def _evaluate(
        self, work: Workspace, name: str, sql: str, every_s: float, before: SqlResult | None
    ) -> SqlResult:
        if self._workers is None:
            self._workers = QueryWorkers(work.settings, count=1)
        at = self._wall()
        try:
            body = self._workers.ask("sql", TIMEOUT_S, sql=sql, rows=ROWS_MAX)
        except Error as exc:
            problem = redact(f"{exc.what} {exc.why or ''}".strip(), resolved_values())
            return SqlResult(name, at, every_s=every_s, problem=problem)
        rows = body.get("rows") or []
        since = before.since if before is not None and before.since is not None else at
        return SqlResult(
            rule=name,
            at=at,
            rows=len(rows),
            is_cut=bool(body.get("is_cut")),
            first=_in_words(body, rows),
            since=since if rows else None,
            every_s=every_s,
        )


def _in_words(body: Mapping[str, Any], rows: list[list[Any]]) -> str:
    """The first row: city=Bern, count=7."""
    if not rows:
        return ""
    names = [str(column.get("name")) for column in body.get("columns") or ()]
    pairs = zip(names, rows[0], strict=False)
    text = ", ".join(f"{name}={value}" for name, value in pairs)
    return redact(text, resolved_values())[:FIRST_CHARS]
