"""The tables of both databases, as numbered steps. Only `store/db.py` reads them.

A step is never changed once released: a new one is added below. `user_version` counts those done.
Times are seconds since the epoch (UTC); JSON is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Step = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    application_id: int  # identifies a file as ours
    steps: tuple[Step, ...]
    disposable: bool  # a damaged file may simply be replaced

    @property
    def tables(self) -> set[str]:
        """All that must be there after the last step."""
        found = [re.match(r"(CREATE|DROP) TABLE (\w+)", sql) for step in self.steps for sql in step]
        by_verb = {
            verb: {one[2] for one in found if one and one[1] == verb} for verb in ("CREATE", "DROP")
        }
        return by_verb["CREATE"] - by_verb["DROP"]


_BUCKET = """
    pipeline TEXT NOT NULL, query TEXT NOT NULL, start REAL NOT NULL,
    batches INTEGER NOT NULL,
    rows_in INTEGER NOT NULL, rows_in_min INTEGER NOT NULL, rows_in_max INTEGER NOT NULL,
    rows_out INTEGER,
    batch_ms REAL, batch_ms_max REAL,
    dropped INTEGER NOT NULL,
    state_rows_max INTEGER, state_bytes_max INTEGER,
    watermark REAL, watermark_at REAL,
    PRIMARY KEY (pipeline, query, start)
"""

_HISTORY_1: Step = (
    """CREATE TABLE runs (
        run TEXT PRIMARY KEY, pipeline TEXT NOT NULL, version TEXT NOT NULL, profile TEXT NOT NULL,
        attempt INTEGER NOT NULL, started_at REAL, ended_at REAL, ending TEXT, code INTEGER,
        spec TEXT, exit TEXT)""",
    "CREATE INDEX runs_by_pipeline ON runs (pipeline, started_at)",
    """CREATE TABLE progress (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        pipeline TEXT NOT NULL, run TEXT NOT NULL, query TEXT NOT NULL, batch INTEGER NOT NULL,
        at REAL NOT NULL,
        rows_in INTEGER NOT NULL, rows_out INTEGER, input_rate REAL, processing_rate REAL,
        batch_ms REAL, phases TEXT NOT NULL, state_rows INTEGER, state_bytes INTEGER,
        watermark REAL, dropped_by_watermark INTEGER NOT NULL, raw TEXT NOT NULL,
        UNIQUE (pipeline, run, query, batch))""",
    "CREATE INDEX progress_by_query ON progress (pipeline, query, at)",
    "CREATE INDEX progress_by_time ON progress (at)",
    f"CREATE TABLE progress_minute ({_BUCKET}) WITHOUT ROWID",
    f"CREATE TABLE progress_hour ({_BUCKET}) WITHOUT ROWID",
    "CREATE INDEX progress_minute_by_time ON progress_minute (start)",
    "CREATE INDEX progress_hour_by_time ON progress_hour (start)",
    # The last batch whose raw rows were pruned: an events file read again must not count twice.
    """CREATE TABLE progress_pruned (
        pipeline TEXT NOT NULL, run TEXT NOT NULL, query TEXT NOT NULL,
        batch INTEGER NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (pipeline, run, query)) WITHOUT ROWID""",
    """CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL, pipeline TEXT NOT NULL, run TEXT, seq INTEGER,
        kind TEXT NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL,
        UNIQUE (run, seq))""",
    "CREATE INDEX events_by_pipeline ON events (pipeline, id)",
    "CREATE INDEX events_by_time ON events (at)",
    "CREATE TABLE pipelines (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        request TEXT NOT NULL UNIQUE, at REAL NOT NULL, by TEXT NOT NULL, what TEXT NOT NULL,
        pipeline TEXT NOT NULL, text TEXT NOT NULL, body TEXT NOT NULL)""",
)

_FRESH_SUMS = (
    "fresh_n INTEGER NOT NULL DEFAULT 0",
    "fresh_p50_ms_by_n REAL",
    "fresh_p99_ms_max REAL",
)
# Freshness of a batch; unknown for earlier rows.
_HISTORY_2: Step = (
    "ALTER TABLE progress ADD COLUMN fresh_basis TEXT",
    "ALTER TABLE progress ADD COLUMN fresh_n INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE progress ADD COLUMN fresh_p50_ms REAL",
    "ALTER TABLE progress ADD COLUMN fresh_p99_ms REAL",
    "ALTER TABLE progress ADD COLUMN fresh_newest_ms REAL",
    *(f"ALTER TABLE progress_minute ADD COLUMN {column}" for column in _FRESH_SUMS),
    *(f"ALTER TABLE progress_hour ADD COLUMN {column}" for column in _FRESH_SUMS),
)

_PHASES = (
    "latest_offset_ms",
    "get_batch_ms",
    "query_planning_ms",
    "wal_commit_ms",
    "add_batch_ms",
    "commit_offsets_ms",
)
# The phases of a batch, in roll-ups; unknown for earlier ones.
_HISTORY_3: Step = tuple(
    f"ALTER TABLE {table} ADD COLUMN {column} REAL"
    for table in ("progress_minute", "progress_hour")
    for column in _PHASES
)

# Totals that are never pruned while their query lives: exported counters must not go back.
_HISTORY_4: Step = (
    """CREATE TABLE query_totals (
        pipeline TEXT NOT NULL, query TEXT NOT NULL, at REAL NOT NULL,
        batches INTEGER NOT NULL, rows_in INTEGER NOT NULL, rows_out INTEGER, late INTEGER NOT NULL,
        quarantined INTEGER, state_rows INTEGER, state_bytes INTEGER, watermark REAL, last_ms REAL,
        PRIMARY KEY (pipeline, query)) WITHOUT ROWID""",
    """INSERT INTO query_totals (pipeline, query, at, batches, rows_in, rows_out, late)
        SELECT pipeline, query, max(start), sum(batches), sum(rows_in), sum(rows_out), sum(dropped)
        FROM progress_hour GROUP BY pipeline, query""",
    # The batches of each length: above the next smaller limit, up to `le_ms`. `ms` is their sum.
    """CREATE TABLE batch_durations (
        pipeline TEXT NOT NULL, query TEXT NOT NULL, le_ms REAL NOT NULL, at REAL NOT NULL,
        batches INTEGER NOT NULL, ms REAL NOT NULL,
        PRIMARY KEY (pipeline, query, le_ms)) WITHOUT ROWID""",
    """CREATE TABLE pipeline_totals (
        pipeline TEXT NOT NULL, name TEXT NOT NULL, label TEXT NOT NULL, at REAL NOT NULL,
        total INTEGER NOT NULL,
        PRIMARY KEY (pipeline, name, label)) WITHOUT ROWID""",
    """INSERT INTO pipeline_totals (pipeline, name, label, at, total)
        SELECT pipeline, 'restarts', '', max(started_at), count(*) FROM runs
        WHERE json_valid(spec) AND json_extract(spec, '$.restarts') > 0 AND started_at IS NOT NULL
        GROUP BY pipeline""",
)

_ALERTS_1: Step = (
    """CREATE TABLE alerts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL, pipeline TEXT NOT NULL, query TEXT, rule TEXT NOT NULL,
        title TEXT NOT NULL, severity TEXT NOT NULL, data TEXT NOT NULL,
        opened_at REAL NOT NULL, updated_at REAL NOT NULL, resolved_at REAL,
        updates INTEGER NOT NULL DEFAULT 0, reopened INTEGER NOT NULL DEFAULT 0)""",
    # At most one open alert per key.
    "CREATE UNIQUE INDEX alerts_open ON alerts (key) WHERE resolved_at IS NULL",
    "CREATE INDEX alerts_by_key ON alerts (key, id)",
)
_ALERTS_2: Step = (
    # When it resolves by itself, if its query has worked until then.
    "ALTER TABLE alerts ADD COLUMN resolve_at REAL",
    """CREATE INDEX alerts_due ON alerts (resolve_at)
        WHERE resolved_at IS NULL AND resolve_at IS NOT NULL""",
    # The last batch of a query whose alert rows are stored: an earlier one is not stored again.
    """CREATE TABLE taken_batches (
        query_id TEXT PRIMARY KEY, batch INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID""",
)

_ALERTS_3: Step = (
    # `opened_at` comes from the row; this is when it was stored.
    "ALTER TABLE alerts ADD COLUMN noticed_at REAL",
    # The position in the topic of alert rows, stored rows (some are sent twice), and their changes
    # until the supervisor has reported them.
    """CREATE TABLE topic_positions (
        topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (topic, partition))""",
    # `quiet` is the key of the alert that a row did not have to resolve, `moment` the row's own.
    """CREATE TABLE topic_rows (
        twin BLOB PRIMARY KEY, at REAL NOT NULL, quiet TEXT, moment REAL) WITHOUT ROWID""",
    "CREATE INDEX topic_rows_by_time ON topic_rows (at)",
    "CREATE INDEX topic_rows_quiet ON topic_rows (quiet, moment) WHERE quiet IS NOT NULL",
    """CREATE TABLE topic_changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT, pipeline TEXT NOT NULL, is_opened INTEGER NOT NULL,
        key TEXT NOT NULL, title TEXT NOT NULL, at REAL NOT NULL)""",
)

_ALERTS_4: Step = (
    # The log of changes, written with the alert itself. Each reader (the supervisor, and each
    # channel) has its own position in it.
    """CREATE TABLE alert_changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT, alert INTEGER NOT NULL, kind TEXT NOT NULL,
        title TEXT NOT NULL, at REAL NOT NULL)""",
    "CREATE INDEX alert_changes_by_alert ON alert_changes (alert)",
    "CREATE TABLE change_readers (reader TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID",
    # Changes of topic rows that are not yet recorded as events.
    """INSERT INTO alert_changes (alert, kind, title, at)
        SELECT (SELECT max(id) FROM alerts WHERE alerts.key = topic_changes.key),
            CASE WHEN is_opened THEN 'trigger' ELSE 'resolve' END, title, at
        FROM topic_changes WHERE key IN (SELECT key FROM alerts) ORDER BY id""",
    "DROP TABLE topic_changes",
    # What each channel sent. `key` is the one that the service knows: of the alert, or of a group.
    """CREATE TABLE deliveries (
        id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, change INTEGER NOT NULL,
        alert INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
        at REAL NOT NULL, attempts INTEGER NOT NULL, reply TEXT NOT NULL,
        UNIQUE (channel, change))""",
    "CREATE INDEX deliveries_by_alert ON deliveries (alert, channel)",
    "CREATE INDEX deliveries_by_key ON deliveries (channel, key)",
)

_ALERTS_5: Step = (
    "ALTER TABLE alerts ADD COLUMN acknowledged_at REAL",
    "ALTER TABLE alerts ADD COLUMN acknowledged_by TEXT",
    # Globs; of the query, NULL stands for all, also for alerts without a query.
    """CREATE TABLE silences (
        id INTEGER PRIMARY KEY AUTOINCREMENT, pipeline TEXT NOT NULL, query TEXT,
        rule TEXT NOT NULL, reason TEXT NOT NULL, by TEXT NOT NULL,
        from_at REAL NOT NULL, until REAL NOT NULL, ended_at REAL)""",
    "CREATE INDEX silences_by_end ON silences (until)",
    # Notices that are sent if their alert is still open when its silence ends.
    "CREATE INDEX deliveries_silenced ON deliveries (channel, alert) WHERE state = 'silenced'",
)

HISTORY = Schema(
    application_id=0x48445231,  # "HDR1"
    steps=(_HISTORY_1, _HISTORY_2, _HISTORY_3, _HISTORY_4),
    disposable=True,
)

ALERTS = Schema(
    application_id=0x48445232,  # "HDR2"
    steps=(_ALERTS_1, _ALERTS_2, _ALERTS_3, _ALERTS_4, _ALERTS_5),
    disposable=False,
)
