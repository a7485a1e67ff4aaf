"""How many alerts are open, for exported metrics."""

from __future__ import annotations

from headrace.store import db


def count(conn: db.Store) -> dict[tuple[str, str], int]:
    """By pipeline and severity; alerts of the project itself have the pipeline ""."""
    found = db.rows(
        conn,
        "SELECT pipeline, severity, count(*) AS n FROM alerts WHERE resolved_at IS NULL"
        " GROUP BY pipeline, severity",
    )
    return {(row["pipeline"], row["severity"]): row["n"] for row in found}
