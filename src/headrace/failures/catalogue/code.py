"""Failures of the user's functions, of memory, and of single records."""

from __future__ import annotations

from headrace.failures.catalogue_entry import CatalogueEntry, FailureKind

# Spark wraps an exception in a foreachBatch function several times. The search continues inside.
UNWRAP_CONDITIONS = (
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "FOREACH_USER_FUNCTION_ERROR",
)
UNWRAP_PATTERNS = (
    r"An exception was raised by the Python Proxy",
    r"Job aborted due to stage failure",
)

_FIX_CODE = (
    "Correct the function, or filter out the rows that it cannot handle, then run `headrace up`. "
    "For the full traceback, run `headrace logs NAME`."
)

USER_CODE = CatalogueEntry(
    "user-code",
    FailureKind.DATA,
    what="Your code raised {type}[: {message}][; re-raised as {outer}]",
    why="The exception came from a function in the pipeline. The batch was not completed.",
    fix=_FIX_CODE,
)

MEMORY = (
    CatalogueEntry(
        "out-of-memory",
        FailureKind.RETRY_THEN_HUMAN,
        retries=2,
        conditions=(
            "CANNOT_LOAD_STATE_STORE.HDFS_STORE_PROVIDER_OUT_OF_MEMORY",
            "CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY",
        ),
        patterns=(
            r"\bOutOfMemoryError\b(?:: (?P<which>Java heap space|GC overhead limit exceeded"
            r"|Metaspace|Direct buffer memory|unable to create (?:new )?native thread))?",
            r"^(?:builtins\.|numpy\S*\.)?_?(?:Array)?MemoryError\b|\[Errno 12\]",
        ),
        what="Out of memory[: {which}].",
        why="A batch, the state, or the data that a function collects does not fit in memory.",
        fix="Make batches smaller (max_files, max_rows), avoid collect and toPandas on whole "
        "batches, or increase spark.driver.memory.",
    ),
    CatalogueEntry(
        "worker-lost",
        FailureKind.RETRY_THEN_HUMAN,
        retries=2,
        patterns=(
            r"Python worker exited unexpectedly",
            r"\bExecutorLostFailure\b",
            r"(?i:exit(?:ed)?(?: with)?(?: code| status)?:? 137\b)|\bOOMKilled\b",
            r"killed by YARN for exceeding",
        ),
        what="A worker process died.",
        why="Usually, the operating system killed the process because it used too much memory. "
        "A crash in a native library looks the same.",
        fix="Make batches smaller (max_files, max_rows, "
        "spark.sql.execution.arrow.maxRecordsPerBatch), or give workers more memory "
        "(spark.executor.memoryOverhead, spark.executor.pyspark.memory).",
    ),
    CatalogueEntry(
        "worker-start",
        FailureKind.RETRY,
        patterns=(r"Python worker (?:failed )?to connect back",),
        what="A Python worker did not start within Spark's limit of ten seconds.",
        why="The machine was probably overloaded.",
        fix="Usually no action is needed. If this keeps happening, reduce the load on the "
        "machine, or add cores.",
    ),
)

ENTRIES = (
    CatalogueEntry(
        "python-function-failed",
        FailureKind.DATA,
        # An inner network failure or lack of memory is more specific.
        hints=(
            r"\[(?:PYTHON_EXCEPTION|FAILED_EXECUTE_UDF|TRANSFORM_WITH_STATE_USER_FUNCTION_ERROR"
            r"|PYTHON_DATA_SOURCE_ERROR|PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR)\b",
            r"\bPythonException\b",
        ),
        what="A Python function in the query raised {type}[: {message}]",
        why="The function could not handle a row in this batch.",
        fix=_FIX_CODE,
    ),
    CatalogueEntry(
        "python-module-missing",
        FailureKind.HUMAN,
        patterns=(
            r"^(?:builtins\.)?ModuleNotFoundError: No module named '(?P<module>[^'\n]+)'",
            r"^(?:builtins\.)?ImportError\b",
        ),
        what="A Python module could not be imported[: {module}].",
        why="A function in the pipeline imports it: {message}",
        fix="Install it in the environment that runs Headrace, and on a cluster in that of the "
        "workers, too; then run `headrace start NAME`. Your own modules must be in the project "
        "folder when you run `headrace up`.",
    ),
    CatalogueEntry(
        "python-not-found",
        FailureKind.HUMAN,
        patterns=(r"Cannot run program \"(?P<program>[^\"\n]*python[^\"\n]*)\"",),
        what="The Python program for workers could not be started[: {program}].",
        why="{message}",
        fix="Set PYSPARK_PYTHON to a Python program that exists on every machine that runs "
        "workers, or remove it; then run `headrace up`.",
    ),
    CatalogueEntry(
        "bad-record",
        FailureKind.DATA,
        conditions=(
            "MALFORMED_RECORD_IN_PARSING.*",
            "MALFORMED_PROTOBUF_MESSAGE",
            "MALFORMED_CSV_RECORD",
            "MALFORMED_CHARACTER_CODING",
            "MALFORMED_VARIANT",
            "CAST_INVALID_INPUT",
            "CAST_OVERFLOW*",
            "AVRO_*",
            "KAFKA_MALFORMED_RECORD_TIMESTAMP",
            "DIVIDE_BY_ZERO",
            "ARITHMETIC_OVERFLOW",
            "NUMERIC_VALUE_OUT_OF_RANGE.*",
            "CANNOT_PARSE_*",
            "DATETIME_OVERFLOW",
            "DATETIME_FIELD_OUT_OF_BOUNDS.*",
            "INVALID_ARRAY_INDEX*",
            "NOT_NULL_ASSERT_VIOLATION",
            "NOT_NULL_CONSTRAINT_VIOLATION.*",
        ),
        names=(r"\] (?P<record>[^\n]+?)\.(?:\s|$)",),
        what="A record in this batch could not be processed[: {record}].",
        why="The query failed on one of the record's values, for example in a cast, a division or "
        "a date format.",
        fix="Make the query tolerate such values with try_cast or try_divide, or filter out such "
        "records; then run `headrace up`.",
    ),
    CatalogueEntry(
        "network-in-your-code",
        FailureKind.RETRY,
        patterns=(
            r"^(?:builtins\.)?(?:Connection(?:Refused|Reset|Aborted)?Error|BrokenPipeError|TimeoutError"
            r"|BlockingIOError)\b",
            r"^(?:socket|asyncio)\.\w*(?:timeout|Timeout|gaierror|herror)\w*",
            r"^(?:\w+\.)?\w*Error: \[Errno (?:-[235]|32|101|103|104|110|111|112|113)\]",
            r"^(?:requests|urllib3|httpx|httpcore|aiohttp|botocore|redis|pymongo|cassandra|elasticsearch"
            r"|elastic_transport|grpc)\b[\w.]*\.\w*(?:Connect|Timeout|MaxRetry|Protocol|Network|ReadError"
            r"|WriteError|ChunkedEncoding|Disconnected|AutoReconnect|ServerSelection|NoHostAvailable"
            r"|Unavailable)\w*",
            r"^urllib\.error\.URLError\b|^http\.client\.(?:RemoteDisconnected|IncompleteRead)\b",
            r"^(?:sqlalchemy\.exc|pymysql\.err|MySQLdb\S*|oracledb\S*)\.OperationalError\b",
            r"database is locked",
        ),
        what="A function in the pipeline failed with a connection error: {type}[: {message}]",
        why="The service that the function calls is down, slow, or unreachable from this machine.",
        fix="Check that the service is running and can be reached from this machine.",
    ),
)
