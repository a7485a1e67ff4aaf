"""Failures of a checkpoint and of the state in it.

Most need a person: lost checkpoint data cannot be reconstructed, and a start without it duplicates
rows.
"""

from __future__ import annotations

from headrace.failures.catalogue_entry import NEW_CHECKPOINT, CatalogueEntry, FailureKind

_REVERT = (
    "Go back to the earlier definition (`headrace rollback NAME`), or set "
    f"{NEW_CHECKPOINT}: the query then starts over, without its state."
)
_PATH = r"(?P<path>(?:[a-z0-9]+:)?/[^\s,;]*?)(?=[.,;]?(?:\s|$))"

ENTRIES = (
    CatalogueEntry(
        "two-writers",
        FailureKind.HUMAN,
        conditions=("CONCURRENT_STREAM_LOG_UPDATE",),
        patterns=(
            r"Multiple streaming queries are concurrently using(?: (?P<path>\S+))?",
            r"Concurrent update to the log\. Multiple streaming jobs detected",  # file sources
        ),
        what="Another process is writing to this query's checkpoint[: {path}].",
        why="A log entry that this query was about to write already exists.",
        fix="To find the other process, use `headrace status` in every project that uses this "
        "checkpoint, and look for a script that was started by hand. Stop that process, then "
        "run `headrace start NAME`.",
    ),
    CatalogueEntry(
        "stateful-operators-changed",
        FailureKind.HUMAN,
        conditions=("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",),
        names=(
            r"operators in the metadata: \[(?P<before>[^\]\n]*)\]",
            r"operators in current batch: \[(?P<now>[^\]\n]+)\]",
        ),
        what="An aggregation, join or deduplication was added, removed or moved.",
        why="The state in the checkpoint belongs to different operators[: previously {before}]"
        "[, now {now}].",
        fix=_REVERT,
    ),
    CatalogueEntry(
        "state-schema-changed",
        FailureKind.HUMAN,
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
        what="The columns that the query uses to group, deduplicate or aggregate have changed.",
        why="They do not match the state in the checkpoint[: previously {before}][, now {now}].",
        fix=_REVERT
        + " Do not disable spark.sql.streaming.stateStore.stateSchemaCheck: results would be "
        "wrong.",
    ),
    CatalogueEntry(
        "state-format-unreadable",
        FailureKind.HUMAN,
        conditions=(
            "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE",
            "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION",
            "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_WRITER_VERSION",
        ),
        what="This version of Spark cannot read the state in the checkpoint.",
        why="The state was written by a different version of Spark or for different columns, or it "
        "is damaged.",
        fix="Go back to the Spark version or query definition that wrote the state, or restore "
        "the checkpoint from a backup.",
    ),
    CatalogueEntry(
        "state-setting-changed",
        FailureKind.HUMAN,
        conditions=("STATE_STORE_INVALID_CONFIG_AFTER_RESTART",),
        names=(
            r"Cannot change (?P<setting>\S+) from (?P<before>\S+) to (?P<now>\S+)",
            r"from (?P<before>\S+) to",
        ),
        what="A setting that must stay the same for the life of a checkpoint has changed[: "
        "{setting}][, previously {before}][, now {now}].",
        why="The state was written with the earlier value.",
        fix="Restore the earlier value: under [spark] in headrace.toml, or, if it is an argument "
        f"of an operator such as transformWithState, in the query. Or set {NEW_CHECKPOINT}. Then "
        "run `headrace up`.",
    ),
    CatalogueEntry(
        "state-file-lost",
        FailureKind.RETRY_THEN_HUMAN,
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
        # Uncategorized: an inner network or disk failure is more specific.
        hints=(r"\[CANNOT_LOAD_STATE_STORE\b",),
        names=(r"Error reading (?:delta|snapshot|streaming state) file (?:of )?" + _PATH,),
        what="One of the query's state files is missing or truncated[: {path}].",
        why="The file was deleted, or a write to it was interrupted.",
        fix="A single occurrence can be a race condition and needs no action. If this keeps "
        f"happening, restore the checkpoint from a backup, or set {NEW_CHECKPOINT}.",
    ),
    CatalogueEntry(
        "state-still-held",
        FailureKind.RETRY,
        conditions=(
            "CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR",
            "STATE_STORE_INVALID_STAMP",
            "STATE_STORE_OPERATION_OUT_OF_ORDER",
            "STATE_STORE_INVALID_STATE_MACHINE_TRANSITION",
        ),
        what="An earlier task still has this query's state open.",
        why="It had not finished when the next task opened the same state partition.",
        fix="Usually no action is needed. If this keeps happening, see `headrace logs NAME`.",
    ),
    CatalogueEntry(
        "checkpoint-write-refused",
        FailureKind.RETRY,
        conditions=("STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",),
        # An inner full disk or denied access is more specific.
        hints=(r"\[CANNOT_WRITE_STATE_STORE\b",),
        names=(r"(?:to|at|location|path) " + _PATH,),
        what="The checkpoint could not be written[: {path}].",
        why="The storage rejected a write: {message}",
        fix="Check the free space, permissions and health of the storage.",
    ),
    CatalogueEntry(
        "batch-not-consumed",
        FailureKind.HUMAN,
        conditions=("STATE_STORE_COMMIT_VALIDATION_FAILED",),
        what="A foreachBatch function did not read its whole batch.",
        why="Not every state partition was committed. Typical causes are `show`, `limit` or "
        "`first` on the batch, or an exception that was caught and ignored.",
        fix="Make the function read the whole batch: write it, `count` it, or `persist` it first.",
    ),
    CatalogueEntry(
        "checkpoint-damaged",
        FailureKind.HUMAN,
        conditions=(
            "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
            "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
        ),
        patterns=(r"\bChecksumException\b",),
        names=(r"file " + _PATH,),
        what="A file in the checkpoint is damaged[: {path}].",
        why="Its content does not match its checksum.",
        fix="Restore the checkpoint from a backup, and check the health of its storage.",
    ),
    CatalogueEntry(
        "checkpoint-metadata-lost",
        FailureKind.HUMAN,
        conditions=("STREAMING_CHECKPOINT_MISSING_METADATA_FILE",),
        names=(r"Checkpoint location " + _PATH,),
        what="The checkpoint's `metadata` file is missing[: {path}].",
        why="It contains the query id. Without that id, the query would process all input again.",
        fix=f"Restore the `metadata` file from a backup. To start over, set {NEW_CHECKPOINT}.",
    ),
    CatalogueEntry(
        "state-and-offsets-disagree",
        FailureKind.HUMAN,
        conditions=(
            "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
            "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
        ),
        what="The state and the offsets in the checkpoint do not match.",
        why="The query was stateless before and is stateful now, or the `state` folder was deleted "
        "or replaced.",
        fix=_REVERT + " If `state` was deleted by mistake, restore it from a backup.",
    ),
    CatalogueEntry(  # before checkpoint-log-torn: the same message with a longer path
        "sink-log-lost",
        FailureKind.HUMAN,
        patterns=(
            r"(?P<path>\S{1,1000})/_spark_metadata/?\S{0,60} doesn't exist when compacting",
            r"BATCH_METADATA_NOT_FOUND\b[^\n]*?batch (?P<path>\S+)/_spark_metadata/",
        ),
        what="The file sink's log is incomplete[: {path}/_spark_metadata].",
        why="Files in the log were deleted, or the output path was changed but the checkpoint was "
        "not.",
        fix="Restore `_spark_metadata` from a backup, or change the path back. To start over, set "
        f"{NEW_CHECKPOINT}.",
    ),
    CatalogueEntry(
        "checkpoint-log-torn",
        FailureKind.HUMAN,
        conditions=("MALFORMED_LOG_FILE", "BATCH_METADATA_NOT_FOUND"),
        patterns=(
            r"Failed to read log file (?P<path>\S+?)\.\s",
            r"Incomplete log file",
            r"batch (?P<batch>\d+) doesn't exist",
        ),
        hints=(r"\bJsonEOFException\b",),  # the list of a file source, cut off
        names=(r"Unable to find batch " + _PATH,),
        what="An entry in the checkpoint's log is truncated or missing[: {path}][: batch {batch}].",
        why="A write was interrupted, or a file was changed or deleted.",
        fix="Run `headrace start NAME`, which first checks the whole checkpoint and names the "
        "damaged entry. If that entry is the latest one and `commits` has no file with its "
        "number, delete the entry. Otherwise, restore the checkpoint from a backup.",
    ),
)
