"""Runs in the history: one row a driver process, from its start to its end.

Written by the supervisor, read by the page and `status`. What is decided (backoff, three times the
same failure) comes from the files of the runs themselves, never from here: history is disposable.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.model.glance import BAD
from headrace.model.runs import Exit, RunSpec, pipeline_of
from headrace.store import db, texts


@dataclass(frozen=True, slots=True)
class Run:
    run: str
    pipeline: str
    version: str
    profile: str
    attempt: int
    started_at: float | None
    ended_at: float | None
    ending: str | None  # model.runs.Ending
    code: int | None
    exit: Mapping[str, Any]  # exit.json; empty while it runs


def record_start(conn: db.Store, spec: RunSpec) -> bool:
    """True if this start was not known yet. A run whose end came first gets its start filled in."""
    with db.transaction(conn):
        done = conn.execute(
            """INSERT INTO runs (run, pipeline, version, profile, attempt, started_at, spec)
               VALUES (?, ?, ?, ?, ?, ?, ?)
               ON CONFLICT (run) DO UPDATE SET pipeline = excluded.pipeline,
                 version = excluded.version, profile = excluded.profile, attempt = excluded.attempt,
                 started_at = excluded.started_at, spec = excluded.spec
               WHERE runs.started_at IS NULL""",
            (
                spec.run,
                spec.pipeline,
                spec.version,
                spec.profile,
                spec.attempt,
                spec.at,
                texts.dump(spec.to_json()),
            ),
        )
        return done.rowcount > 0


def record_end(conn: db.Store, run: str, exit: Exit, at: float) -> bool:
    """True if this end was not known yet: the first one recorded stays."""
    with db.transaction(conn):
        # The history may have been begun anew while the run lived: then its start is unknown.
        conn.execute(
            "INSERT OR IGNORE INTO runs (run, pipeline, version, profile, attempt)"
            " VALUES (?, ?, '', '', 1)",
            (run, pipeline_of(run)),
        )
        done = conn.execute(
            "UPDATE runs SET ended_at = ?, ending = ?, code = ?, exit = ?"
            " WHERE run = ? AND ended_at IS NULL",
            (at, str(exit.ending), exit.code, texts.dump(exit.to_json()), run),
        )
        return done.rowcount > 0


def listed(conn: db.Store, pipeline: str | None = None, limit: int = 50) -> list[Run]:
    """The newest first."""
    found = db.rows(
        conn,
        "SELECT * FROM runs WHERE (?1 IS NULL OR pipeline = ?1)"
        " ORDER BY coalesce(started_at, ended_at) DESC, run DESC LIMIT ?2",
        (pipeline, max(0, limit)),
    )
    return [_run(row) for row in found]


def restarts_since(conn: db.Store, since: float) -> dict[str, int]:
    """By pipeline: runs that began after `since` because another one had ended."""
    found = db.rows(
        conn,
        "SELECT pipeline, count(*) AS n FROM runs WHERE started_at >= ?"
        " AND json_extract(spec, '$.restarts') > 0 GROUP BY pipeline",
        (since,),
    )
    return {row["pipeline"]: row["n"] for row in found}


def last_failures(conn: db.Store, since: float) -> list[Run]:
    """Of each pipeline the last run that ended badly."""
    marks = ", ".join("?" for _ in BAD)
    # SQLite: the other columns are those of the row with the maximum.
    sql = "SELECT *, max(ended_at) FROM runs WHERE ended_at >= ? AND ending IN"
    values = (since, *(str(ending) for ending in BAD))
    found = db.rows(conn, f"{sql} ({marks}) GROUP BY pipeline", values)
    return [_run(row) for row in found]


def _run(row: sqlite3.Row) -> Run:
    return Run(
        run=row["run"],
        pipeline=row["pipeline"],
        version=row["version"],
        profile=row["profile"],
        attempt=row["attempt"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        ending=row["ending"],
        code=row["code"],
        exit=texts.load(row["exit"]),
    )
