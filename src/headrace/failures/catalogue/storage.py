"""Failures of disks, object stores, credentials and networks. Read through `table`."""

from __future__ import annotations

from headrace.failures.entry import Entry, Kind

_PATH = r"(?P<path>(?:[a-z0-9]+:)?/[^\s,;'\"]*?)(?=[.,;]?(?:\s|$|['\"]))"

DISK_FULL = Entry(
    43,
    "disk-full",
    Kind.RETRY,
    patterns=(r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]",),
    names=(r"(?:writing rows to|writing to|file) " + _PATH,),
    what="A disk is full[: {path}].",
    why="There is no space left on the device that holds the output, the checkpoint or Spark's "
    "temporary files.",
    fix="Make space (`df -h` shows where) or enlarge the disk. The query goes on by itself then.",
)

# These explain whatever else went wrong, so they are searched first.
FIRST = (
    DISK_FULL,
    Entry(
        42,
        "credentials-expired",
        # Once more, since a new token is often there by then.
        Kind.RETRY_THEN_HUMAN,
        retries=1,
        patterns=(
            r"(?i:\btoken\b[^\n]{0,200}\b(?:is|has) expired)|\bExpiredToken(?:Exception)?\b"
            r"|\bRequestExpired\b",
        ),
        what="Credentials have expired.",
        why="{type}[: {message}]",
        fix="Renew them; a role or keytab that renews itself lasts longer than a fixed token.",
    ),
    Entry(
        42,
        "access-denied",
        Kind.HUMAN,
        patterns=(
            r"\bAccessDenied(?:Exception)?\b|\bAccessControlException\b|\bAuthorizationPermissionMismatch\b",
            r"(?i:status(?: code)?:? 403\b|\b403 Forbidden)",
            r"\bInvalidAccessKeyId\b|\bSignatureDoesNotMatch\b|\bAuthenticationFailed\b",
            r"password authentication failed|no password supplied|\b28P01\b",
            r"\[Errno 13\] Permission denied|\(Permission denied\)",
        ),
        names=(_PATH,),
        what="Access was refused[: {path}].",
        why="{type}[: {message}]",
        fix="Check which user or key this runs with and what it may do; correct it, then "
        "`headrace start NAME`.",
    ),
)

ENTRIES = (
    Entry(
        58,
        "input-schemas-differ",
        Kind.HUMAN,
        conditions=(
            "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
            "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE",
            "CANNOT_MERGE_SCHEMAS",
        ),
        patterns=(r"\bSchemaColumnConvertNotSupportedException\b",),
        names=(
            r"reading file " + _PATH,
            r"column:? \[(?P<column>[^\]]+)\]",
            r"Expected Spark type (?P<expected>[^,\n]+), actual Parquet type (?P<actual>\w+)",
        ),
        what="The folder has come to hold files of two schemas[: column {column} differs]"
        "[ in {path}].",
        why="The query was started with one schema[ ({expected})] and this file has another"
        "[ ({actual})].",
        fix="Move the files of the other schema into a folder and a source of their own and join "
        "both with a union, or write them anew. Then `headrace start NAME`.",
    ),
    Entry(
        40,
        "input-file-gone",
        Kind.DATA,
        conditions=("FAILED_READ_FILE.FILE_NOT_EXIST", "PATH_NOT_FOUND"),
        hints=(
            r"\bFileNotFoundException\b(?![^\n]*(?:/state/\d|_spark_metadata|/offsets/|/commits/))",
        ),
        names=(
            r"reading file " + _PATH,
            r"Path does not exist: " + _PATH,
            r"FileNotFoundException: (?:File )?" + _PATH,
        ),
        what="An input file or folder is not there[: {path}].",
        why="It was deleted or moved after it had been listed, or never existed.",
        fix="Put it back at the same path: the batch is tried again and reads it. A file that is "
        "still gone then is reported by name as input-vanished. For a folder, correct the path.",
    ),
    Entry(
        40,
        "input-vanished",
        Kind.HUMAN,
        patterns=(
            r"headrace\.InputVanished: (?P<files>\d+ files? of batch \d+)"
            r"(?:: (?P<path>[^\n]+))?",
        ),
        what="Input files vanished before they were read[: {files}][, {path}].",
        why="Spark lists a folder once for many batches and silently skips a listed file that is "
        "gone by the time its batch is planned. The batch is committed without its rows.",
        fix="Copy the file back under a new name (Spark never reads a name twice), then "
        "`headrace start NAME`: it reads exactly what is missing. To go on without it, only start; "
        'to go on by itself in future, set on_missing="continue" on the source.',
    ),
    Entry(
        41,
        "storage-hiccup",
        Kind.RETRY,
        patterns=(
            r"\bSlowDown\b|(?i:status(?: code)?:? (?:500|502|503)\b)|\b503 Service Unavailable",
            r"\bSocketTimeout(?:Exception)?\b|\bFetchFailed(?:Exception)?\b"
            r"|\bMetadataFetchFailedException\b",
            r"java\.net\.(?:ConnectException|UnknownHostException|NoRouteToHostException"
            r"|SocketException)",
            r"Connection reset by peer|\bConnectTimeoutException\b",
        ),
        # The cause inside (a full disk, a refused key) says more.
        hints=(r"\[FAILED_READ_FILE\b", r"\[TASK_WRITE_FAILED\]"),
        names=(r"(?:reading file|writing rows to) " + _PATH,),
        what="Storage or the network failed for a moment[: {path}].",
        why="{type}[: {message}]",
        fix="It is tried again by itself, later each time. If this repeats, look at the storage's "
        "health.",
    ),
)
