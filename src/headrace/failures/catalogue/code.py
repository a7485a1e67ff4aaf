"""Failures of the user's own functions, of memory, and of single records. Read through `table`.

Spark wraps an exception in a function for each batch several times over; the wrappers are `UNWRAP`.
"""

from __future__ import annotations

from headrace.failures.entry import Entry, Kind

# Wrappers say nothing about a failure: the search always goes on inside.
UNWRAP_CONDITIONS = (
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "FOREACH_USER_FUNCTION_ERROR",
)
UNWRAP_PATTERNS = (
    r"An exception was raised by the Python Proxy",
    r"Job aborted due to stage failure",
)

USER_CODE = Entry(
    36,
    "user-code",
    Kind.DATA,
    what="Your code raised {type}[: {message}][; it was raised again as {outer}]",
    why="The exception came out of a function of the pipeline, and its batch was not finished.",
    fix="Correct the function, or filter the rows that it cannot handle, then `headrace up`. The "
    "whole traceback is in `headrace logs NAME`.",
)

MEMORY = (
    Entry(
        54,
        "out-of-memory",
        Kind.RETRY_THEN_HUMAN,
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
        what="There was not enough memory[: {which}].",
        why="A batch, the state, or what a function collects is larger than the memory it may use.",
        fix="Make batches smaller (max_files, max_rows), avoid collect and toPandas on whole "
        "batches, or raise spark.driver.memory.",
    ),
    Entry(
        38,
        "worker-lost",
        Kind.RETRY_THEN_HUMAN,
        retries=2,
        patterns=(
            r"Python worker exited unexpectedly",
            r"\bExecutorLostFailure\b",
            r"(?i:exit(?:ed)?(?: with)?(?: code| status)?:? 137\b)|\bOOMKilled\b",
            r"killed by YARN for exceeding",
        ),
        what="A worker process died in the middle of its work.",
        why="Most often the system killed it for its memory; a crash in a native library looks "
        "the same.",
        fix="Make batches smaller (max_files, max_rows, "
        "spark.sql.execution.arrow.maxRecordsPerBatch), or give workers more memory "
        "(spark.executor.memoryOverhead, spark.executor.pyspark.memory).",
    ),
    Entry(
        59,
        "worker-start",
        Kind.RETRY,
        patterns=(r"Python worker (?:failed )?to connect back",),
        what="A Python worker did not start within Spark's ten seconds.",
        why="The machine had too much else to do at that moment.",
        fix="It is tried again by itself. If this repeats, give the machine less to do at once, or "
        "more cores.",
    ),
)

ENTRIES = (
    Entry(
        37,
        "python-function-failed",
        Kind.DATA,
        # A network failure or lack of memory inside says more.
        hints=(
            r"\[(?:PYTHON_EXCEPTION|FAILED_EXECUTE_UDF|TRANSFORM_WITH_STATE_USER_FUNCTION_ERROR"
            r"|PYTHON_DATA_SOURCE_ERROR|PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR)\b",
            r"\bPythonException\b",
        ),
        what="A Python function of the query raised {type}[: {message}]",
        why="It could not handle a row of this batch.",
        fix="Correct the function, or filter the rows that it cannot handle, then `headrace up`. "
        "The whole traceback is in `headrace logs NAME`.",
    ),
    Entry(
        39,
        "bad-record",
        Kind.DATA,
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
        what="A record of this batch cannot be processed[: {record}].",
        why="A value does not fit what the query does with it (a cast, a division, a format).",
        fix="Let the query tolerate it: try_cast, try_divide, or a filter that puts bad "
        "records aside; then `headrace up`.",
    ),
    Entry(
        36,
        "network-in-your-code",
        Kind.RETRY,
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
        what="A function of the pipeline lost a connection: {type}[: {message}]",
        why="What it talks to is down, slow, or cannot be reached from here.",
        fix="It is tried again by itself, later each time. Look at the service that the code "
        "calls.",
    ),
)
