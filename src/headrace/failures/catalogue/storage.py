"""Failures of disks, object stores, credentials and networks."""

from __future__ import annotations

from headrace.failures.catalogue_entry import NEW_CHECKPOINT, CatalogueEntry, FailureKind

_PATH = r"(?P<path>(?:[a-z0-9]+:)?/[^\s,;'\"]*?)(?=[.,;]?(?:\s|$|['\"]))"

# These cause other failures, so they are searched first.
FIRST = (
    CatalogueEntry(
        "disk-full",
        FailureKind.RETRY,
        patterns=(r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]",),
        names=(r"(?:writing rows to|writing to|file) " + _PATH,),
        what="A disk is full[: {path}].",
        why="No space is left on the device that holds the output, the checkpoint or Spark's "
        "temporary files.",
        fix="Free some space or enlarge the disk. `df -h` shows which disks are full.",
    ),
    CatalogueEntry(
        "disk-read-only",
        FailureKind.HUMAN,
        patterns=(r"Read-only file system|\[Errno 30\]",),
        names=(_PATH,),
        what="A disk is mounted read-only[: {path}].",
        why="The disk that holds the output, the checkpoint or Spark's temporary files does not "
        "accept writes. Linux remounts a disk read-only after a disk error.",
        fix="Search `dmesg` for disk errors, and mount the disk for writing (`mount -o "
        "remount,rw`) or move the folder; then run `headrace start NAME`.",
    ),
    CatalogueEntry(
        "credentials-expired",
        # One retry: by then the token has often been renewed.
        FailureKind.RETRY_THEN_HUMAN,
        retries=1,
        patterns=(
            r"(?i:\btoken\b[^\n]{0,200}\b(?:is|has) expired)|\bExpiredToken(?:Exception)?\b"
            r"|\bRequestExpired\b",
        ),
        what="Credentials have expired.",
        why="{type}[: {message}]",
        fix="Renew the credentials. To avoid this in the future, use a role or a keytab with "
        "automatic renewal.",
    ),
    CatalogueEntry(
        "access-denied",
        FailureKind.HUMAN,
        patterns=(
            r"\bAccessDenied(?:Exception)?\b|\bAccessControlException\b|\bAuthorizationPermissionMismatch\b",
            r"(?i:status(?: code)?:? 403\b|\b403 Forbidden)",
            r"\bInvalidAccessKeyId\b|\bSignatureDoesNotMatch\b|\bAuthenticationFailed\b",
            r"password authentication failed|no password supplied|\b28P01\b",
            r"\[Errno 13\] Permission denied|\(Permission denied\)",
            r"\bHTTP Error 40[13]\b|\b40[13] Client Error\b|\b401 Unauthorized\b",
        ),
        names=(_PATH,),
        what="Access denied[: {path}].",
        why="{type}[: {message}]",
        fix="Check which user or key the pipeline uses, and which permissions it has. Correct "
        "them, then run `headrace start NAME`.",
    ),
)

ENTRIES = (
    CatalogueEntry(
        "input-schemas-differ",
        FailureKind.HUMAN,
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
        what="The folder contains files with different schemas[: column {column} differs][ in "
        "{path}].",
        why="The query started with one schema[ ({expected})], but a file has a different one[ "
        "({actual})].",
        fix="Rewrite the files that have the different schema, then run `headrace start NAME`. "
        "Or move them to a separate folder, read that folder as a second source, and combine "
        f"the two sources with a union. A second source requires {NEW_CHECKPOINT}; then run "
        "`headrace up`.",
    ),
    CatalogueEntry(
        "input-file-damaged",
        FailureKind.DATA,
        conditions=("FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER",),
        patterns=(
            r"is not a Parquet file|Could not read footer for file|Malformed ORC file",
            r"[Nn]ot in GZIP format|Unexpected end of (?:ZLIB )?input stream|\bZipException\b",
            r"Not an Avro data file|incorrect (?:header|data) check",
        ),
        names=(r"reading (?:the footer for )?file:? " + _PATH,),
        what="An input file is damaged or has a different format[: {path}].",
        why="It was not written completely, or it is not of the format that the source expects: "
        "{message}",
        fix="Write the file again under a new name and delete this one, or move it out of the "
        "folder; then run `headrace start NAME`. Writers should write to a temporary name and "
        "rename the file when it is complete.",
    ),
    CatalogueEntry(
        "input-file-gone",
        FailureKind.DATA,
        conditions=("FAILED_READ_FILE.FILE_NOT_EXIST", "PATH_NOT_FOUND"),
        hints=(
            r"\bFileNotFoundException\b(?![^\n]*(?:/state/\d|_spark_metadata|/offsets/|/commits/))",
        ),
        names=(
            r"reading file " + _PATH,
            r"Path does not exist: " + _PATH,
            r"FileNotFoundException: (?:File )?" + _PATH,
        ),
        what="An input file or folder does not exist[: {path}].",
        why="It was deleted or moved after it had been listed, or it never existed.",
        fix="Put the file back at the same path, so that the next attempt can read it. If the "
        "file is still missing on that attempt, Headrace reports input-vanished and names the "
        "file. If a folder does not exist, correct its path.",
    ),
    CatalogueEntry(
        "input-vanished",
        FailureKind.HUMAN,
        patterns=(
            r"headrace\.InputVanished: (?P<files>\d+ files? of batch \d+)"
            r"(?:: (?P<path>[^\n]+))?",
        ),
        what="Input files disappeared before they were read[: {files}][, {path}].",
        why="Spark lists a folder once for many batches. If a listed file no longer exists when "
        "its batch is planned, Spark silently skips the file and commits the batch without its "
        "rows.",
        fix="Copy the file back under a new name (Spark never reads the same name twice), then "
        "run `headrace start NAME`. Files that were already read are not read again. To "
        "continue without the file, just run `headrace start NAME`. To always continue when "
        'files are missing, set on_missing="continue" on the source.',
    ),
    CatalogueEntry(
        "storage-hiccup",
        FailureKind.RETRY,
        patterns=(
            r"\bSlowDown\b|(?i:status(?: code)?:? (?:500|502|503)\b)|\b503 Service Unavailable",
            r"\bSocketTimeout(?:Exception)?\b|\bFetchFailed(?:Exception)?\b"
            r"|\bMetadataFetchFailedException\b",
            r"java\.net\.(?:ConnectException|UnknownHostException|NoRouteToHostException"
            r"|SocketException)",
            r"Connection reset by peer|\bConnectTimeoutException\b",
            r"\bHTTP Error 50[0234]\b|\b50[0234] Server Error\b",
        ),
        # An inner cause (a full disk, denied access) is more specific.
        hints=(r"\[FAILED_READ_FILE\b", r"\[TASK_WRITE_FAILED\]"),
        names=(r"(?:reading file|writing rows to) " + _PATH,),
        what="Storage or the network failed briefly[: {path}].",
        why="{type}[: {message}]",
        fix="Usually no action is needed. If this keeps happening, check the storage and the "
        "network.",
    ),
)
