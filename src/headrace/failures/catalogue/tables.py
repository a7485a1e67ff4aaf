"""Failures of tables: Delta, Iceberg, PostgreSQL.

An SQLSTATE counts only next to PostgreSQL's name: Spark's own messages have one too.
"""

from __future__ import annotations

from headrace.failures.catalogue_entry import NEW_CHECKPOINT, CatalogueEntry, FailureKind

_POSTGRES = r"(?s)(?:PSQLException|psycopg|asyncpg|BatchUpdateException|SQLTransientConnection).*"

ENTRIES = (
    CatalogueEntry(
        "delta-two-writers",
        FailureKind.HUMAN,
        conditions=("DELTA_CONCURRENT_TRANSACTION*",),
        patterns=(r"\bConcurrentTransactionException\b",),
        what="Two runs of the same query are writing to one Delta table.",
        why="Both have the same query id, so they use the same checkpoint or a copy of it.",
        fix="To find the other run, use `headrace status` in every project that uses this "
        "checkpoint, and look for a script that was started by hand. Stop that run, then run "
        "`headrace start NAME`.",
    ),
    CatalogueEntry(
        "delta-write-conflict",
        FailureKind.RETRY,
        conditions=(
            "DELTA_CONCURRENT_APPEND*",
            "DELTA_CONCURRENT_WRITE*",
            "DELTA_CONCURRENT_DELETE_READ*",
            "DELTA_CONCURRENT_DELETE_DELETE*",
        ),
        patterns=(r"\bConcurrent(?:Append|Write|DeleteRead|DeleteDelete)Exception\b",),
        what="This batch conflicts with another change to the Delta table.",
        why="Another writer changed the same files and committed first.",
        fix="Usually no action is needed. If this keeps happening, narrow the MERGE condition, or "
        "run OPTIMIZE and similar jobs at a different time.",
    ),
    CatalogueEntry(
        "delta-source-schema-moved",
        FailureKind.RETRY_THEN_HUMAN,
        retries=3,
        conditions=(
            "DELTA_SCHEMA_CHANGED*",
            "DELTA_STREAMING_METADATA_EVOLUTION",
            "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART",
        ),
        what="The schema of a Delta source has changed.",
        why="The running query was planned for the earlier schema.",
        fix="Usually no action is needed: the next start uses the new schema. If that start fails, "
        "adapt the query, then run `headrace up`.",
    ),
    CatalogueEntry(
        "delta-source-schema-incompatible",
        FailureKind.HUMAN,
        conditions=(
            "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE*",
            "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
        ),
        patterns=(r"CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",),
        what="A column of a Delta source was renamed or dropped, or its type changed.",
        why="{message}",
        fix="Set schemaTrackingLocation on the source and confirm the change as described in the "
        f"message, or set {NEW_CHECKPOINT}.",
    ),
    CatalogueEntry(
        "delta-sink-schema-differs",
        FailureKind.HUMAN,
        conditions=("DELTA_METADATA_MISMATCH", "DELTA_FAILED_TO_MERGE_FIELDS"),
        names=(r"merge fields '(?P<column>[^']+)'",),
        what="The output does not match the Delta table's columns[: {column}].",
        why="{message}",
        fix="Cast the columns to the table's types, or set the mergeSchema option to allow new "
        "columns.",
    ),
    CatalogueEntry(
        "source-table-rewritten",
        FailureKind.HUMAN,
        conditions=("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE"),
        patterns=(r"Cannot process (?:overwrite|delete) snapshot",),
        names=(r"\bversion:? (?P<version>\d+)", r"snapshot:? (?P<version>\d+)"),
        what="Rows in the source table were updated or deleted[ in version {version}].",
        why="A stream can read only rows that are appended to a table.",
        fix="Skip such changes (Delta: skipChangeCommits; Iceberg: "
        "streaming-skip-overwrite-snapshots), read the change feed, or set "
        f"{NEW_CHECKPOINT}.",
    ),
    CatalogueEntry(
        "source-table-history-gone",
        FailureKind.HUMAN,
        conditions=(
            "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
            "DELTA_TRUNCATED_TRANSACTION_LOG",
            "DELTA_FILE_NOT_FOUND*",
            "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        ),
        patterns=(r"snapshot was expired|expired snapshot|Cannot load current offset at snapshot",),
        what="The source table no longer has the version that the query must read next.",
        why="VACUUM or snapshot expiry removed that version before the query read it, or the "
        "table was deleted and created again.",
        fix=f"Set {NEW_CHECKPOINT}, and start from a version that still exists. Keep the table's "
        "history for longer than your longest outage.",
    ),
    CatalogueEntry(
        "rows-violate-table",
        FailureKind.DATA,
        conditions=(
            "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
            "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        ),
        names=(
            r"CHECK constraint (?P<rule>\S+)",
            r"NOT NULL constraint violated for column: (?P<rule>\S+?)[.\s]",
        ),
        what="The table rejected rows in this batch[: {rule}].",
        why="Either several rows in a MERGE have the same key, or a value is missing or not "
        "allowed.",
        fix="Keep only one row per key before the MERGE (dropDuplicates), or filter out rows "
        "with missing or invalid values.",
    ),
    CatalogueEntry(
        "database-busy",
        FailureKind.RETRY,
        conditions=("FAILED_JDBC.CONNECTION",),
        patterns=(
            _POSTGRES + r"(?:SQLSTATE|SQLState)\W*(?:40001|40P01|53300|57P0[123]|08\w{3})\b",
            _POSTGRES
            + r"(?:deadlock detected|could not serialize access|too many (?:clients|connections)"
            r"|remaining connection slots|terminating connection due to|the database system is"
            r"|connection attempt failed|Connection to \S+ refused|I/O error occurred"
            r"|server closed the connection|This connection has been closed)",
            r"psycopg\S*\.(?:DeadlockDetected|SerializationFailure|TooManyConnections|AdminShutdown"
            r"|CrashShutdown|CannotConnectNow|ConnectionFailure|ConnectionException|ConnectionTimeout"
            r"|ConnectionDoesNotExist|OperationalError|InterfaceError)\b",
        ),
        what="The database was temporarily unable to process this batch.",
        why="The cause is a conflict with another transaction, too many connections, or a database "
        "that is down or restarting: {message}",
        fix="Usually no action is needed. If this keeps happening, write with fewer parallel tasks "
        "(coalesce), and check the database's log.",
    ),
    CatalogueEntry(
        "database-refused-rows",
        FailureKind.DATA,
        patterns=(
            _POSTGRES + r"(?:SQLSTATE|SQLState)\W*(?:23\w{3}|22\w{3})\b",
            _POSTGRES + r"(?:duplicate key value violates unique constraint \"(?P<rule>[^\"]+)\""
            r"|violates \S+(?: \S+)? constraint|value too long for type|out of range"
            r"|invalid input syntax)",
            r"psycopg\S*\.(?:UniqueViolation|NotNullViolation|ForeignKeyViolation|CheckViolation"
            r"|StringDataRightTruncation|NumericValueOutOfRange|InvalidTextRepresentation|DataError"
            r"|IntegrityError)\b",
        ),
        names=(r"constraint \"(?P<rule>[^\"]+)\"",),
        what="The database rejected a row in this batch[: constraint {rule}].",
        why="{message}",
        fix="For duplicates, write with an upsert (INSERT … ON CONFLICT … DO UPDATE) in the "
        "function that writes the batch. Shorten, cast or filter out values that do not fit.",
    ),
    CatalogueEntry(
        "database-schema-differs",
        FailureKind.HUMAN,
        patterns=(
            _POSTGRES + r"(?:SQLSTATE|SQLState)\W*(?:42P01|42703)\b",
            _POSTGRES
            + r"(?:relation|column) \"(?P<name>[^\"]+)\"(?: of relation \S+)? does not exist",
            r"psycopg\S*\.(?:UndefinedTable|UndefinedColumn)\b",
        ),
        names=(r"(?:relation|column) \"(?P<name>[^\"]+)\"",),
        what="A table or column does not exist in the database[: {name}].",
        why="{message}",
        fix="Create or alter the table, then run `headrace start NAME`; or change the query's "
        "columns, then run `headrace up`.",
    ),
)
