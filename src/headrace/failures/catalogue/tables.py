"""Failures of tables: Delta, Iceberg, PostgreSQL. Read through `table`.

A PostgreSQL code counts only beside PostgreSQL's name: Spark's own messages carry an SQLSTATE too.
"""

from __future__ import annotations

from headrace.failures.entry import NEW_CHECKPOINT, Entry, Kind

_POSTGRES = r"(?s)(?:PSQLException|psycopg|asyncpg|BatchUpdateException|SQLTransientConnection).*"
_DELTA_TABLE = (r"[Tt]able:? [`'\"]?(?P<table>[\w./:`-]+)",)

ENTRIES = (
    Entry(
        5,
        "delta-two-writers",
        Kind.HUMAN,
        conditions=("DELTA_CONCURRENT_TRANSACTION*",),
        patterns=(r"\bConcurrentTransactionException\b",),
        names=_DELTA_TABLE,
        what="Two runs of the same query write to one Delta table.",
        why="Both use the same query id, so one of them is a second copy.",
        fix="Find the other run (`headrace status` in every project that uses this checkpoint, "
        "scripts started by hand) and end it; then `headrace start NAME`.",
    ),
    Entry(
        6,
        "delta-write-conflict",
        Kind.RETRY,
        conditions=(
            "DELTA_CONCURRENT_APPEND*",
            "DELTA_CONCURRENT_WRITE*",
            "DELTA_CONCURRENT_DELETE_READ*",
            "DELTA_CONCURRENT_DELETE_DELETE*",
        ),
        patterns=(r"\bConcurrent(?:Append|Write|DeleteRead|DeleteDelete)Exception\b",),
        names=_DELTA_TABLE,
        what="Another writer changed the Delta table first.",
        why="Both touched the same files, and the other one's commit won.",
        fix="The batch is tried again by itself. If this repeats, narrow the condition of MERGE, "
        "or run OPTIMIZE and the like at another time.",
    ),
    Entry(
        30,
        "delta-source-schema-moved",
        Kind.RETRY_THEN_HUMAN,
        retries=3,
        conditions=(
            "DELTA_SCHEMA_CHANGED*",
            "DELTA_STREAMING_METADATA_EVOLUTION",
            "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART",
        ),
        what="The schema of a Delta source has changed.",
        why="The running query was planned for the earlier one.",
        fix="A new start takes the new schema. If that fails, make the query fit it, then "
        "`headrace up`.",
    ),
    Entry(
        31,
        "delta-source-schema-incompatible",
        Kind.HUMAN,
        conditions=(
            "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE*",
            "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
        ),
        patterns=(r"CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",),
        what="A column of a Delta source was renamed, dropped or has another type.",
        why="{message}",
        fix="Set schemaTrackingLocation on the source and confirm the change as the message says, "
        f"or set {NEW_CHECKPOINT}.",
    ),
    Entry(
        32,
        "delta-sink-schema-differs",
        Kind.HUMAN,
        conditions=("DELTA_METADATA_MISMATCH", "DELTA_FAILED_TO_MERGE_FIELDS"),
        names=(r"merge fields '(?P<column>[^']+)'",),
        what="The output does not fit the Delta table's columns[: {column}].",
        why="{message}",
        fix="Cast the columns to the table's types, or allow new columns with the option "
        "mergeSchema.",
    ),
    Entry(
        33,
        "source-table-rewritten",
        Kind.HUMAN,
        conditions=("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE"),
        patterns=(r"Cannot process (?:overwrite|delete) snapshot",),
        names=(r"\bversion:? (?P<version>\d+)", r"snapshot:? (?P<version>\d+)"),
        what="Rows of the source table were updated or deleted[ in version {version}].",
        why="A stream over a table can only follow added rows.",
        fix="Choose: skip such changes (skipChangeCommits; Iceberg: "
        "streaming-skip-overwrite-snapshots), read the change feed, or set "
        f"{NEW_CHECKPOINT}.",
    ),
    Entry(
        34,
        "source-table-history-gone",
        Kind.HUMAN,
        conditions=(
            "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
            "DELTA_TRUNCATED_TRANSACTION_LOG",
            "DELTA_FILE_NOT_FOUND*",
            "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        ),
        patterns=(r"snapshot was expired|expired snapshot|Cannot load current offset at snapshot",),
        what="The part of the source table's history that comes next is gone.",
        why="The reader fell behind VACUUM or expiry, or the table was deleted and recreated.",
        fix=f"Set {NEW_CHECKPOINT}, and start from a version that is still there; keep the "
        "table's history for longer than the longest stop.",
    ),
    Entry(
        35,
        "rows-violate-table",
        Kind.DATA,
        conditions=(
            "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
            "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        ),
        names=(
            r"CHECK constraint (?P<rule>\S+)",
            r"NOT NULL constraint violated for column: (?P<rule>\S+?)[.\s]",
        ),
        what="Rows of this batch break a rule of the table[: {rule}].",
        why="Several rows have the same key in MERGE, or a value is missing or not allowed.",
        fix="Keep one row for each key before MERGE (dropDuplicates), or filter such rows out.",
    ),
    Entry(
        44,
        "database-busy",
        Kind.RETRY,
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
        what="The database could not serve this batch now.",
        why="A deadlock, too many connections, or a restart of the database: {message}",
        fix="It is tried again by itself. If this repeats, let fewer tasks write at once "
        "(coalesce) and look at the database.",
    ),
    Entry(
        45,
        "database-refused-rows",
        Kind.DATA,
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
        what="The database refuses a row of this batch[: constraint {rule}].",
        why="{message}",
        fix="For duplicates, give the sink a `key` so that rows are updated; shorten, cast or "
        "filter values that do not fit.",
    ),
    Entry(
        45,
        "database-schema-differs",
        Kind.HUMAN,
        patterns=(
            _POSTGRES + r"(?:SQLSTATE|SQLState)\W*(?:42P01|42703)\b",
            _POSTGRES
            + r"(?:relation|column) \"(?P<name>[^\"]+)\"(?: of relation \S+)? does not exist",
            r"psycopg\S*\.(?:UndefinedTable|UndefinedColumn)\b",
        ),
        names=(r"(?:relation|column) \"(?P<name>[^\"]+)\"",),
        what="A table or column is not in the database[: {name}].",
        why="{message}",
        fix="Create or alter the table, or change the query's columns, then `headrace start NAME`.",
    ),
)
