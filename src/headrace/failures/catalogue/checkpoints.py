"""Failures of a checkpoint and of the state in it. Read through `table`.

Most need a person: what a checkpoint lost cannot be guessed, and starting without it doubles rows.
"""

from __future__ import annotations

from headrace.failures.entry import NEW_CHECKPOINT, Entry, Kind

_REVERT = (
    "Go back to the earlier definition (`headrace rollback NAME`), or set "
    f"{NEW_CHECKPOINT}: it then starts afresh, without its state."
)
_PATH = r"(?P<path>(?:[a-z0-9]+:)?/[^\s,;]*?)(?=[.,;]?(?:\s|$))"

ENTRIES = (
    Entry(
        2,
        "two-writers",
        Kind.HUMAN,
        conditions=("CONCURRENT_STREAM_LOG_UPDATE",),
        patterns=(
            r"Multiple streaming queries are concurrently using (?P<path>\S+)",
            r"Multiple streaming queries are concurrently using",
            r"Concurrent update to the log\. Multiple streaming jobs detected",  # by file sources
        ),
        what="Another process writes to this query's checkpoint[: {path}].",
        why="An entry that this query was about to write was there already.",
        fix="Find the other process (`headrace status` in every project that uses this "
        "checkpoint, scripts started by hand) and end it; then `headrace start NAME`.",
    ),
    Entry(
        8,
        "stateful-operators-changed",
        Kind.HUMAN,
        conditions=("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",),
        names=(
            r"operators in the metadata: \[(?P<before>[^\]\n]*)\]",
            r"operators in current batch: \[(?P<now>[^\]\n]+)\]",
        ),
        what="An aggregation, join or deduplication was added to the query, removed or moved.",
        why="The checkpoint's state belongs to other operators[: then {before}][, now {now}].",
        fix=_REVERT,
    ),
    Entry(
        9,
        "state-schema-changed",
        Kind.HUMAN,
        conditions=(
            "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
            "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
            "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
            "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        ),
        patterns=(r"StateSchemaNotCompatible",),
        names=(
            r"Existing (?:key|value)_schema=StructType\((?P<before>.*?)\) and new",
            r"new (?:key|value)_schema=StructType\((?P<now>.*?)\)\.",
        ),
        what="The columns that the query groups, deduplicates or aggregates by have changed.",
        why="They do not fit the state in the checkpoint[: then {before}][, now {now}].",
        fix=_REVERT
        + " Do not switch spark.sql.streaming.stateStore.stateSchemaCheck off: the answers "
        "become wrong.",
    ),
    Entry(
        10,
        "state-format-unreadable",
        Kind.HUMAN,
        conditions=(
            "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION",
            "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_WRITER_VERSION",
        ),
        what="The state in the checkpoint cannot be read by this Spark.",
        why="It was written by another version of Spark, for other columns, or is damaged.",
        fix="Run with the Spark version that wrote it, or restore the checkpoint from a backup.",
    ),
    Entry(
        11,
        "state-setting-changed",
        Kind.HUMAN,
        conditions=("STATE_STORE_INVALID_CONFIG_AFTER_RESTART",),
        names=(
            r"(?P<setting>spark\.[\w.]+)",
            r"from (?P<before>\S+) to",
        ),
        what="A setting that is fixed with the checkpoint has changed[: {setting}][ was {before}].",
        why="The state was written under the earlier value.",
        fix="Set it back under [spark] in headrace.toml, then `headrace up`.",
    ),
    Entry(
        12,
        "state-file-lost",
        Kind.RETRY_THEN_HUMAN,
        retries=2,
        conditions=(
            "CANNOT_LOAD_STATE_STORE.CANNOT_READ_*",
            "CANNOT_LOAD_STATE_STORE.CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT",
            "CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE",
            "CANNOT_LOAD_STATE_STORE.UNEXPECTED_VERSION",
            "CANNOT_LOAD_STATE_STORE.INVALID_CHECKPOINT_LINEAGE",
            "CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED",
            "CANNOT_LOAD_STATE_STORE.SNAPSHOT_PARTITION_ID_NOT_FOUND",
        ),
        patterns=(r"Error reading (?:delta|snapshot) file .*(?:does not exist|size)",),
        # Uncategorized: a network or disk failure inside says more.
        hints=(r"\[CANNOT_LOAD_STATE_STORE\b",),
        names=(r"Error reading (?:delta|snapshot|streaming state) file (?:of )?" + _PATH,),
        what="A file of the query's state is missing or torn[: {path}].",
        why="It was deleted, or its write was cut short.",
        fix="A first time it can be a passing race. If it happens again, restore the checkpoint "
        f"from a backup, or set {NEW_CHECKPOINT}.",
    ),
    Entry(
        13,
        "state-still-held",
        Kind.RETRY,
        conditions=(
            "CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR",
            "STATE_STORE_INVALID_STAMP",
            "STATE_STORE_OPERATION_OUT_OF_ORDER",
            "STATE_STORE_INVALID_STATE_MACHINE_TRANSITION",
        ),
        what="An earlier task still holds this query's state.",
        why="It had not ended when the next one asked for the same part of the state.",
        fix="The query is started again by itself.",
    ),
    Entry(
        14,
        "checkpoint-write-refused",
        Kind.RETRY,
        conditions=("STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",),
        # A full disk or a refused key inside says more.
        hints=(r"\[CANNOT_WRITE_STATE_STORE\b",),
        names=(r"(?:to|at|location|path) " + _PATH,),
        what="The checkpoint could not be written[: {path}].",
        why="Its storage refused a write.",
        fix="It is tried again by itself. Look at the storage's space, rights and health.",
    ),
    Entry(
        15,
        "batch-not-consumed",
        Kind.HUMAN,
        conditions=("STATE_STORE_COMMIT_VALIDATION_FAILED",),
        what="A function for each batch did not read its batch to the end.",
        why="Not every part of the state was committed: `show`, `limit` or `first` on the batch, "
        "or an exception that was swallowed.",
        fix="Let the function read the whole batch (write it, `count` it, or `persist` it first).",
    ),
    Entry(
        16,
        "checkpoint-damaged",
        Kind.HUMAN,
        conditions=(
            "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
            "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
        ),
        patterns=(r"\bChecksumException\b",),
        names=(r"file " + _PATH,),
        what="A file of the checkpoint is damaged[: {path}].",
        why="Its bytes do not fit its checksum.",
        fix="Restore the checkpoint from a backup; look at the health of its storage.",
    ),
    Entry(
        17,
        "checkpoint-metadata-lost",
        Kind.HUMAN,
        conditions=("STREAMING_CHECKPOINT_MISSING_METADATA_FILE",),
        names=(r"Checkpoint location " + _PATH,),
        what="The file `metadata` of the checkpoint is gone[: {path}].",
        why="It holds the query's identity; going on without it would process all input again.",
        fix="Restore the file `metadata` from a backup. To start the query afresh, set "
        f"{NEW_CHECKPOINT}.",
    ),
    Entry(
        18,
        "state-and-offsets-disagree",
        Kind.HUMAN,
        conditions=(
            "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
            "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
        ),
        names=(r"(?:directory|location):? " + _PATH,),
        what="The checkpoint's state and its offsets do not belong together.",
        why="The query kept no state before and does now, or the folder `state` was deleted or "
        "replaced.",
        fix=_REVERT + " If `state` was deleted by mistake, restore it from a backup.",
    ),
    Entry(  # before 19: the same words about a longer path
        20,
        "sink-log-lost",
        Kind.HUMAN,
        patterns=(
            r"(?P<path>\S{1,1000})/_spark_metadata/?\S{0,60} doesn't exist when compacting",
            r"BATCH_METADATA_NOT_FOUND\b[^\n]*?batch (?P<path>\S+)/_spark_metadata/",
        ),
        what="The file sink's own log is not complete[: {path}/_spark_metadata].",
        why="It was deleted, or the output path was changed while the checkpoint stayed the same.",
        fix="Restore `_spark_metadata` or set the path back. To start the query afresh, set "
        f"{NEW_CHECKPOINT}.",
    ),
    Entry(
        19,
        "checkpoint-log-torn",
        Kind.HUMAN,
        conditions=("MALFORMED_LOG_FILE", "BATCH_METADATA_NOT_FOUND"),
        patterns=(
            r"Failed to read log file (?P<path>\S+?)\.\s",
            r"Incomplete log file",
            r"batch (?P<batch>\d+) doesn't exist",
        ),
        names=(r"Failed to read log file (?P<path>\S+?)\.\s", r"Unable to find batch " + _PATH),
        what="An entry in the checkpoint's log is torn or missing[: {path}][: batch {batch}].",
        why="A write was cut short, or a file was changed or deleted.",
        fix="`headrace start NAME` reads the whole checkpoint first and names the entry. Only the "
        "newest one, and only if it was never committed (no file of its number in `commits`), may "
        "be removed; otherwise restore a backup.",
    ),
)
