"""Runs in the history: one row per driver process.

Written by the supervisor, read by the page. Decisions (backoff, three times the same failure) use
the files of the runs, never these rows: the history is disposable.
"""

from __future__ import annotations

import sqlite3

from headrace.model.runs import BAD_ENDINGS, Exit, Run, RunSpec, pipeline_of
from headrace.store import db, json_text, totals


def record_start(conn: db.Store, spec: RunSpec) -> bool:
    """True if it is new. A run whose end was recorded first gets its start filled in."""
    with db.transaction(conn):
        done = conn.execute(
            """INSERT INTO runs (run, pipeline, version, profile, attempt, started_at, spec)
               VALUES (:run, :pipeline, :version, :profile, :attempt, :at, :spec)
               ON CONFLICT (run) DO UPDATE SET pipeline = excluded.pipeline,
                 version = excluded.version, profile = excluded.profile, attempt = excluded.attempt,
                 started_at = excluded.started_at, spec = excluded.spec
               WHERE runs.started_at IS NULL""",
            {**spec.to_json(), "spec": json_text.dump(spec.to_json())},
        )
        if done.rowcount > 0:
            totals.add_start(conn, spec)
        return done.rowcount > 0


def record_end(conn: db.Store, run: str, exit: Exit, at: float) -> bool:
    """True if it is new: the first recorded end stays."""
    with db.transaction(conn):
        # The history may be newer than the run: then its start is unknown.
        conn.execute(
            "INSERT OR IGNORE INTO runs (run, pipeline, version, profile, attempt)"
            " VALUES (?, ?, '', '', 1)",
            (run, pipeline_of(run)),
        )
        done = conn.execute(
            "UPDATE runs SET ended_at = ?, ending = ?, code = ?, exit = ?"
            " WHERE run = ? AND ended_at IS NULL",
            (at, str(exit.ending), exit.code, json_text.dump(exit.to_json()), run),
        )
        if done.rowcount > 0:
            totals.add_end(conn, pipeline_of(run), exit, at)
        return done.rowcount > 0


def list_runs(conn: db.Store, pipeline: str | None = None, limit: int = 50) -> list[Run]:
    """The newest first."""
    found = db.rows(
        conn,
        "SELECT * FROM runs WHERE (?1 IS NULL OR pipeline = ?1)"
        " ORDER BY coalesce(started_at, ended_at) DESC, run DESC LIMIT ?2",
        (pipeline, max(0, limit)),
    )
    return [_run(row) for row in found]


def restarts_since(conn: db.Store, since: float) -> dict[str, int]:
    """By pipeline: the number of restarts after `since`."""
    found = db.rows(
        conn,
        "SELECT pipeline, count(*) AS n FROM runs WHERE started_at >= ?"
        " AND json_extract(spec, '$.restarts') > 0 GROUP BY pipeline",
        (since,),
    )
    return {row["pipeline"]: row["n"] for row in found}


def last_failures(conn: db.Store, since: float) -> list[Run]:
    """The last run of each pipeline that ended badly."""
    marks = ", ".join("?" for _ in BAD_ENDINGS)
    # In SQLite the other columns are those of the row with the maximum.
    sql = "SELECT *, max(ended_at) FROM runs WHERE ended_at >= ? AND ending IN"
    values = (since, *(str(ending) for ending in BAD_ENDINGS))
    found = db.rows(conn, f"{sql} ({marks}) GROUP BY pipeline", values)
    return [_run(row) for row in found]


def _run(row: sqlite3.Row) -> Run:
    spec = RunSpec(row["run"], row["pipeline"], "", "", row["version"], row["profile"], "",
                   attempt=row["attempt"], at=row["started_at"] or 0.0)  # fmt: skip
    if row["ended_at"] is None:
        return Run(spec)
    known = {"ending": row["ending"], "code": row["code"], "at": row["ended_at"]}
    return Run(spec, exit=Exit.from_json({**json_text.load(row["exit"]), **known}))
