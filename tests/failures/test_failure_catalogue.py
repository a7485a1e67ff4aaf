"""Every entry of the catalogue has an example text.

The texts of Kafka, Delta, Iceberg, PostgreSQL, Event Hubs and Kinesis are written by hand: they
test the matching, not the wording of these systems. test_failure_samples.py has texts of Spark.
"""

from __future__ import annotations

import json
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from headrace.failures.catalogue import search_order
from headrace.failures.catalogue_entry import CatalogueEntry, FailureKind
from headrace.failures.classifier import FailureText, classify

SPARK = "org.apache.spark.SparkException"
KAFKA = "org.apache.kafka.common.errors."
PSQL = "org.postgresql.util.PSQLException"
FOREACH = "FOREACH_BATCH_USER_FUNCTION_ERROR"


def python(last_line: str) -> FailureText:
    """As an exception in a function for each batch arrives."""
    text = (
        "An exception was raised by the Python Proxy. Return Message: "
        "Traceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/pyspark/sql/utils.py", line 163, in call\n'
        "    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)\n"
        '  File "/project/pipelines/orders.py", line 12, in save\n'
        "    write(rows)\n"
        f"{last_line}\n"
    )
    wrapped = f"[STREAM_FAILED] Query [id = 1] terminated with exception: [{FOREACH}] {text}"
    stream = "org.apache.spark.sql.streaming.StreamingQueryException"
    return FailureText(FOREACH, ((stream, wrapped), ("py4j.Py4JException", text)), text)


def cause(name: str, message: str = "") -> FailureText:
    return FailureText(None, ((SPARK, "Job aborted."), (name, message)), "")


def condition(name: str) -> FailureText:
    return FailureText(name, (), "")


def task(text: str) -> FailureText:
    """A task's failure: text inside a text, and no cause."""
    head = "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent: "
    return FailureText(
        None,
        ((SPARK, f"{head}Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 2): {text}"),),
        "",
    )


EXAMPLES: list[tuple[str, FailureText]] = [
    ("unknown", cause("com.example.OddException", "no idea")),
    ("unknown", condition("STREAM_FAILED")),
    ("two-writers", condition("CONCURRENT_STREAM_LOG_UPDATE")),
    (
        "two-writers",
        cause(
            "java.lang.AssertionError",
            "Multiple streaming queries are concurrently using s3a://b/c",
        ),
    ),
    ("query-already-starting", condition("CONCURRENT_QUERY")),
    (
        "query-already-starting",
        cause(
            "java.lang.IllegalStateException",
            "Cannot start query with id 5a1e as another query with same id is already active.",
        ),
    ),
    (
        "duplicate-query-name",
        cause(
            "java.lang.IllegalArgumentException",
            "Cannot start query with name orders as a query with that name is already active",
        ),
    ),
    ("delta-two-writers", condition("DELTA_CONCURRENT_TRANSACTION")),
    ("delta-write-conflict", condition("DELTA_CONCURRENT_APPEND")),
    ("delta-write-conflict", condition("DELTA_CONCURRENT_DELETE_READ.WITH_PARTITION_HINT")),
    ("delta-write-conflict", cause("io.delta.exceptions.ConcurrentAppendException", "Files were")),
    (
        "sources-changed",
        cause(
            "java.lang.AssertionError",
            "assertion failed: There are [1] sources in the checkpoint offsets and now there are "
            "[2] sources requested by the query. Cannot continue.",
        ),
    ),
    (
        "source-kind-changed",
        cause("java.lang.NumberFormatException", 'For input string: "{"logOffset":3}"'),
    ),
    (
        "stateful-operators-changed",
        condition("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"),
    ),
    ("state-schema-changed", condition("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE")),
    ("state-schema-changed", condition("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE")),
    (
        "state-schema-changed",
        cause(
            "org.apache.spark.sql.execution.streaming.state.StateSchemaNotCompatible",
            "Provided schema doesn't match to the schema for existing state!",
        ),
    ),
    ("state-format-unreadable", condition("STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE")),
    (
        "state-format-unreadable",
        condition("CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION"),
    ),
    ("state-setting-changed", condition("STATE_STORE_INVALID_CONFIG_AFTER_RESTART")),
    ("state-file-lost", condition("CANNOT_LOAD_STATE_STORE.CANNOT_READ_MISSING_SNAPSHOT_FILE")),
    ("state-file-lost", condition("CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE")),
    (
        "state-file-lost",
        task(
            "java.lang.IllegalStateException: Error reading delta file s3a://b/c/state/7.delta of "
            "HDFSStateStoreProvider: s3a://b/c/state/7.delta does not exist"
        ),
    ),
    ("state-still-held", condition("CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR")),
    ("state-still-held", condition("STATE_STORE_INVALID_STAMP")),
    ("checkpoint-write-refused", condition("CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT")),
    ("checkpoint-write-refused", condition("STREAMING_CHECKPOINT_LOG_WRITE_FAILURE")),
    ("batch-not-consumed", condition("STATE_STORE_COMMIT_VALIDATION_FAILED")),
    ("checkpoint-damaged", condition("CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED")),
    ("checkpoint-damaged", condition("STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED")),
    ("checkpoint-metadata-lost", condition("STREAMING_CHECKPOINT_MISSING_METADATA_FILE")),
    (
        "state-and-offsets-disagree",
        condition("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"),
    ),
    ("state-and-offsets-disagree", condition("STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY")),
    ("checkpoint-log-torn", cause("java.lang.IllegalStateException", "Incomplete log file")),
    ("checkpoint-log-torn", cause("java.lang.IllegalStateException", "batch 7 doesn't exist")),
    ("checkpoint-log-torn", condition("MALFORMED_LOG_FILE")),
    (
        "sink-log-lost",
        cause(
            "java.lang.IllegalStateException",
            "hdfs://n/out/_spark_metadata/0 doesn't exist when compacting batch 9",
        ),
    ),
    ("topic-went-back", condition("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED")),
    (
        "topic-went-back",
        cause(
            "java.lang.IllegalStateException",
            "Partition orders-3's offset was changed from 500 to 20, some data may have been "
            "missed. "
            "Some data may have been lost because they are not available in Kafka any more",
        ),
    ),
    ("kafka-data-lost", condition("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE")),
    (
        "kafka-data-lost",
        cause(
            "java.lang.IllegalStateException", "Some data may have been lost because they are not"
        ),
    ),
    ("kafka-data-lost", cause("org.apache.kafka.clients.consumer.OffsetOutOfRangeException", "x")),
    (
        "partitions-changed-while-draining",
        condition("MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED"),
    ),
    (
        "partitions-changed-while-draining",
        condition("END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED"),
    ),
    ("starting-offsets-incomplete", condition("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED")),
    ("kafka-unreachable", cause(KAFKA + "TimeoutException", "Timed out waiting for a node")),
    (
        "kafka-unreachable",
        task(
            "java.util.concurrent.TimeoutException: Cannot fetch record for offset 41 in 120000 ms"
        ),
    ),
    ("kafka-unreachable", cause(KAFKA + "DisconnectException")),
    ("kafka-unreachable", cause(KAFKA + "NotLeaderOrFollowerException", "moved")),
    ("topic-missing", cause(KAFKA + "UnknownTopicOrPartitionException", "This server does not")),
    ("kafka-login-failed", cause(KAFKA + "SaslAuthenticationException", "Authentication failed")),
    ("kafka-login-failed", cause(KAFKA + "SslAuthenticationException", "SSL handshake failed")),
    (
        "kafka-login-failed",
        cause("javax.security.auth.login.LoginException", "No LoginModule found"),
    ),
    (
        "kafka-login-failed",
        cause("org.apache.kafka.common.KafkaException", "Failed to construct kafka consumer"),
    ),
    ("kafka-not-allowed", cause(KAFKA + "TopicAuthorizationException", "Not authorized: [orders]")),
    ("kafka-not-allowed", cause(KAFKA + "GroupAuthorizationException", "Not authorized: group x")),
    (
        "kafka-transaction-refused",
        python("cimpl.KafkaException: KafkaError{FATAL,code=INVALID_TRANSACTION_TIMEOUT,val=50}"),
    ),
    (
        "kafka-fenced",
        python('cimpl.KafkaException: KafkaError{FATAL,code=_FENCED,val=-144,str="fenced"}'),
    ),
    ("kafka-row-too-large", task(KAFKA + "RecordTooLargeException: The message is 2000000 bytes")),
    ("kafka-row-refused", condition("KAFKA_NULL_TOPIC_IN_DATA")),
    ("delta-source-schema-moved", condition("DELTA_SCHEMA_CHANGED_WITH_VERSION")),
    ("delta-source-schema-moved", condition("DELTA_STREAMING_METADATA_EVOLUTION")),
    (
        "delta-source-schema-incompatible",
        condition("DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"),
    ),
    (
        "delta-source-schema-incompatible",
        condition("DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"),
    ),
    ("delta-sink-schema-differs", condition("DELTA_METADATA_MISMATCH")),
    ("delta-sink-schema-differs", condition("DELTA_FAILED_TO_MERGE_FIELDS")),
    ("source-table-rewritten", condition("DELTA_SOURCE_TABLE_IGNORE_CHANGES")),
    (
        "source-table-rewritten",
        cause(
            "java.lang.IllegalStateException", "Cannot process overwrite snapshot: 88, to ignore"
        ),
    ),
    ("source-table-history-gone", condition("DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE")),
    (
        "source-table-history-gone",
        cause(
            "java.lang.IllegalStateException",
            "Cannot load current offset at snapshot 5, the snapshot was expired or removed",
        ),
    ),
    ("rows-violate-table", condition("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE")),
    ("rows-violate-table", condition("DELTA_NOT_NULL_CONSTRAINT_VIOLATED")),
    ("user-code", python("KeyError: 'price'")),
    ("user-code", python("TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'")),
    ("user-code", python("FileNotFoundError: [Errno 2] No such file or directory: 'x.csv'")),
    ("network-in-your-code", python("ConnectionRefusedError: [Errno 111] Connection refused")),
    ("network-in-your-code", python("TimeoutError: timed out")),
    ("network-in-your-code", python("OSError: [Errno 113] No route to host")),
    (
        "network-in-your-code",
        python("BlockingIOError: [Errno 11] Resource temporarily unavailable"),
    ),
    ("network-in-your-code", python("socket.gaierror: [Errno -2] Name or service not known")),
    (
        "network-in-your-code",
        python("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='x', port=443)"),
    ),
    ("network-in-your-code", python("urllib3.exceptions.MaxRetryError: Max retries exceeded")),
    ("network-in-your-code", python("httpx.ConnectTimeout: timed out")),
    ("python-function-failed", condition("PYTHON_EXCEPTION")),
    ("python-function-failed", condition("FAILED_EXECUTE_UDF")),
    ("python-function-failed", condition("TRANSFORM_WITH_STATE_USER_FUNCTION_ERROR")),
    (
        "python-function-failed",
        task(
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "/project/pipelines/orders.py", line 4, in f\nValueError: bad\n'
        ),
    ),
    ("worker-lost", task(f"{SPARK}: Python worker exited unexpectedly (crashed)")),
    ("worker-lost", cause(SPARK, "ExecutorLostFailure (executor 3 exited caused by one of the")),
    ("worker-lost", cause(SPARK, "Container from a bad node. Exit status: 137")),
    (
        "worker-start",
        FailureText(
            None,
            (
                (SPARK, "Python worker failed to connect back."),
                (
                    "java.net.SocketTimeoutException",
                    "Timed out while waiting for the Python worker to connect back",
                ),
            ),
            "",
        ),
    ),
    ("bad-record", condition("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION")),
    ("bad-record", condition("MALFORMED_PROTOBUF_MESSAGE")),
    ("bad-record", condition("CAST_INVALID_INPUT")),
    ("bad-record", condition("AVRO_INCOMPATIBLE_READ_TYPE")),
    ("bad-record", condition("KAFKA_MALFORMED_RECORD_TIMESTAMP")),
    ("input-file-gone", condition("FAILED_READ_FILE.FILE_NOT_EXIST")),
    (
        "input-file-gone",
        task("java.io.FileNotFoundException: File s3a://b/in/1.json does not exist"),
    ),
    ("input-vanished", cause("headrace.InputVanished", "2 files of batch 3: /in/1.json")),
    ("storage-hiccup", condition("FAILED_READ_FILE.NO_HINT")),
    ("storage-hiccup", condition("TASK_WRITE_FAILED")),
    (
        "storage-hiccup",
        cause("com.amazonaws.AmazonS3Exception", "Slow down (Error Code: SlowDown)"),
    ),
    ("storage-hiccup", cause("java.net.SocketTimeoutException", "Read timed out")),
    ("storage-hiccup", cause("org.apache.spark.shuffle.FetchFailedException", "block")),
    ("access-denied", cause("com.amazonaws.AmazonS3Exception", "Error Code: AccessDenied")),
    ("access-denied", cause("java.io.IOException", "Operation failed, status code: 403")),
    ("credentials-expired", cause("x.SecretManager$InvalidToken", "token (owner=a) is expired")),
    ("credentials-expired", cause("com.amazonaws.AmazonS3Exception", "Error Code: ExpiredToken")),
    ("disk-full", cause("java.io.IOException", "No space left on device")),
    ("disk-full", python("OSError: [Errno 28] No space left on device")),
    ("disk-read-only", cause("java.io.IOException", "/data/out/part-0 (Read-only file system)")),
    ("disk-read-only", python("OSError: [Errno 30] Read-only file system: '/data/x'")),
    ("access-denied", python("urllib.error.HTTPError: HTTP Error 403: Forbidden")),
    ("throttled", python("urllib.error.HTTPError: HTTP Error 429: Too Many Requests")),
    ("storage-hiccup", python("requests.exceptions.HTTPError: 503 Server Error: busy for url: x")),
    (
        "input-file-damaged",
        task("java.lang.RuntimeException: file:/in/a.parquet is not a Parquet file."),
    ),
    ("python-module-missing", python("ModuleNotFoundError: No module named 'shop_rates'")),
    ("python-module-missing", python("ImportError: cannot import name 'x' from 'y'")),
    (
        "python-not-found",
        task('java.io.IOException: Cannot run program "/opt/python3.11/bin/python": error=2'),
    ),
    (
        "spark-stopped",
        cause("java.lang.IllegalStateException", "Cannot call methods on a stopped SparkContext."),
    ),
    ("database-busy", cause(PSQL, "ERROR: deadlock detected")),
    ("database-busy", cause(PSQL, "FATAL: sorry, too many clients already")),
    ("database-busy", cause(PSQL, "terminating connection due to administrator command 57P01")),
    ("database-busy", cause("java.sql.BatchUpdateException", "failed, SQLSTATE: 40001")),
    ("database-busy", python("psycopg.OperationalError: connection failed: refused")),
    ("database-busy", condition("FAILED_JDBC.CONNECTION")),
    (
        "database-refused-rows",
        cause(PSQL, 'ERROR: duplicate key value violates unique constraint "orders_pkey"'),
    ),
    ("database-refused-rows", python("psycopg.errors.UniqueViolation: duplicate key value")),
    ("database-refused-rows", cause(PSQL, "ERROR: value too long for type character varying(3)")),
    ("database-schema-differs", cause(PSQL, 'ERROR: relation "orders" does not exist')),
    ("database-schema-differs", python('psycopg.errors.UndefinedColumn: column "x" of relation')),
    (
        "event-hubs-reader-displaced",
        cause(
            "com.microsoft.azure.eventhubs.ReceiverDisconnectedException", "New receiver created"
        ),
    ),
    (
        "kinesis-metadata-lost",
        cause(
            "java.lang.IllegalStateException",
            "Unable to fetch committed metadata from previous batch id 4",
        ),
    ),
    (
        "kinesis-metadata-lost",
        cause("java.lang.IllegalStateException", "Gave up after 3 retries while fetching MetaData"),
    ),
    (
        "kinesis-metadata-lost",
        cause(
            "com.amazonaws.kinesis.ResourceNotFoundException", "Shard shardId-000 does not exist"
        ),
    ),
    ("throttled", cause("com.amazonaws.kinesis.ProvisionedThroughputExceededException", "Rate")),
    ("throttled", cause("com.amazonaws.kinesis.LimitExceededException", "Rate exceeded")),
    ("throttled", cause("com.microsoft.azure.eventhubs.ServerBusyException", "50002")),
    ("definition-not-supported", condition("UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK")),
    ("definition-not-supported", condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION")),
    ("definition-not-supported", condition("NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING")),
    ("library-missing", condition("DATA_SOURCE_NOT_FOUND")),
    ("library-missing", cause("java.lang.NoClassDefFoundError", "org/apache/kafka/common/x/Y")),
    ("library-missing", cause("java.lang.NoSuchMethodError", "'void a.b.C.d()'")),
    ("library-missing", condition("PYTHON_VERSION_MISMATCH")),
    ("python-function-cannot-travel", condition("STREAMING_CONNECT_SERIALIZATION_ERROR")),
    ("python-runner-slow", condition("STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE")),
    (
        "source-naming-or-repartition",
        condition("STREAMING_QUERY_EVOLUTION_ERROR.DUPLICATE_SOURCE_NAMES"),
    ),
    ("source-naming-or-repartition", condition("STREAMING_UNFINISHED_REPARTITION_DETECTED")),
    (
        "bridge-stuck",
        cause(
            "java.util.concurrent.TimeoutException",
            "Stream Execution thread for stream q failed "
            "to stop within 10000 milliseconds (specified by spark.sql.streaming.stopTimeout)",
        ),
    ),
    ("bridge-stuck", cause("py4j.Py4JNetworkException", "")),
    (
        "bridge-stuck",
        cause("py4j.Py4JException", "Error while obtaining a new communication channel"),
    ),
    ("out-of-memory", cause("java.lang.OutOfMemoryError", "Java heap space")),
    ("out-of-memory", python("MemoryError")),
    (
        "out-of-memory",
        FailureText(None, (), "java.lang.OutOfMemoryError: GC overhead limit exceeded"),
    ),
    ("jvm-died", cause("py4j.protocol.Py4JNetworkError", "Answer from Java side is empty")),
    ("vanished", FailureText()),
    ("java-did-not-start", condition("JAVA_GATEWAY_EXITED")),
    (
        "input-schemas-differ",
        cause(
            "org.apache.spark.SparkException",
            "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading "
            "file file:///project/in/part-00000.snappy.parquet. Data type mismatches when reading "
            "Parquet column [id]. Expected Spark type bigint, actual Parquet type BINARY. "
            "SQLSTATE: KD001",
        ),
    ),
]


@pytest.mark.parametrize(("slug", "failure"), EXAMPLES)
def test_an_example_lands_on_its_entry(slug: str, failure: FailureText) -> None:
    assert classify(failure).slug == slug


def test_every_entry_has_an_example() -> None:
    assert {e.slug for e in search_order.ENTRIES} == {slug for slug, _ in EXAMPLES}


def test_slugs_are_unique_and_kebab_case() -> None:
    slugs = [entry.slug for entry in search_order.ENTRIES]

    assert len(set(slugs)) == len(slugs)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", slug) for slug in slugs)


def test_only_retry_then_human_has_a_number_of_tries() -> None:
    for entry in search_order.ENTRIES:
        assert (entry.retries is not None) == (entry.kind is FailureKind.RETRY_THEN_HUMAN), (
            entry.slug
        )


@pytest.mark.parametrize(
    ("slug", "retries"),
    [
        ("query-already-starting", 1),
        ("state-file-lost", 2),
        ("worker-lost", 2),
        ("topic-missing", 3),
        ("kafka-fenced", 3),
        ("topic-went-back", 3),
        ("delta-source-schema-moved", 3),
        ("event-hubs-reader-displaced", 3),
    ],
)
def test_rows_with_a_count_keep_it(slug: str, retries: int) -> None:
    assert next(e for e in search_order.ENTRIES if e.slug == slug).retries == retries


def test_no_fix_promises_a_retry_because_restart_retries_may_be_used_up() -> None:
    promise = re.compile(r"\b(?:tried again|started again|retried|by itself|automatically)\b")

    assert [entry.slug for entry in search_order.ENTRIES if promise.search(entry.fix)] == []


def test_every_name_in_the_words_can_be_found_by_a_pattern() -> None:
    for entry in search_order.ENTRIES:
        groups = {g for p in (*entry.patterns, *entry.names) for g in re.compile(p).groupindex}
        used = set(re.findall(r"\{(\w+)\}", entry.what + entry.why + entry.fix))
        assert used <= groups | {"type", "message", "outer", "fingerprint"}, entry.slug


def test_spark_s_own_conditions_exist_in_this_spark() -> None:
    """So that a spelling mistake in the catalogue is found; later and foreign ones are exempt."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jar = next(Path(spec.origin).parent.glob("jars/spark-common-utils_*.jar"))
    known = json.loads(zipfile.ZipFile(jar).read("error/error-conditions.json"))
    names = set(known) | {f"{k}.{s}" for k, v in known.items() for s in v.get("subClass", {})}
    elsewhere = re.compile(
        r"DELTA_|DIFFERENT_DELTA|KAFKA_|MISMATCHED_TOPIC|LOST_TOPIC|END_OFFSET"  # in their own jars
        r"|STREAMING_CHECKPOINT_LOG_WRITE_FAILURE"  # Spark 4.3
        r"|STREAMING_CONNECT_SERIALIZATION_ERROR"  # PySpark's own, as the next two
        r"|PYTHON_VERSION_MISMATCH|JAVA_GATEWAY_EXITED"
    )

    wanted = {c for e in search_order.ENTRIES for c in e.conditions if not elsewhere.match(c)}
    missing = {c for c in wanted if not any(n.startswith(c.rstrip("*").rstrip(".")) for n in names)}

    assert not missing


def test_an_unknown_failure_says_its_class_and_message_and_where_to_look() -> None:
    verdict = classify(cause("com.example.OddException", "flux too low\nsecond line"))

    assert verdict.kind == "unknown"
    assert verdict.what == "OddException: flux too low"
    assert verdict.fingerprint in verdict.why
    assert "headrace logs NAME" in verdict.fix


def test_an_unknown_condition_is_named() -> None:
    verdict = classify(FailureText("BRAND_NEW_CONDITION", ((SPARK, "[BRAND_NEW_CONDITION] Odd."),)))

    assert verdict.slug == "unknown"
    assert "BRAND_NEW_CONDITION" in verdict.what


def test_a_database_code_in_spark_s_own_message_is_not_the_database_s() -> None:
    verdict = classify(cause(SPARK, "[SOME_NEW_THING] Value. SQLSTATE: 22018"))

    assert verdict.slug == "unknown"


def test_a_source_line_that_names_an_exception_is_not_that_exception() -> None:
    failure = FailureText(
        None,
        (),
        "Traceback (most recent call last):\n"
        '  File "/project/pipelines/orders.py", line 3, in save\n'
        '    raise ValueError("x")  # not ConnectionError: No space left on device\n'
        "ValueError: x\n",
    )

    assert classify(failure).slug == "user-code"


def test_a_column_named_like_a_failure_in_the_plan_is_not_that_failure() -> None:
    message = (
        "[STREAM_FAILED] Query terminated with exception: odd\n=== Streaming Query ===\n"
        "Project [AccessDenied#1, OutOfMemoryError#2]"
    )

    assert classify(FailureText(None, ((SPARK, message),))).slug == "unknown"


def test_what_a_python_exception_was_caused_by_decides_its_kind() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/project/pipelines/orders.py", line 3, in save\n'
        "    connect()\n"
        "ConnectionResetError: [Errno 104] Connection reset by peer\n"
        "\n"
        "The above exception was the direct cause of the following exception:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "/project/pipelines/orders.py", line 5, in save\n'
        "    raise RuntimeError('could not save') from error\n"
        "RuntimeError: could not save\n"
    )

    assert classify(FailureText(None, (), trace)).kind == "retry"


def test_an_exception_in_a_handler_counts_itself_and_not_what_was_handled() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/project/pipelines/orders.py", line 3, in save\n'
        "    connect()\n"
        "ConnectionResetError: [Errno 104] Connection reset by peer\n"
        "\n"
        "During handling of the above exception, another exception occurred:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "/project/pipelines/orders.py", line 5, in save\n'
        "    row['price']\n"
        "KeyError: 'price'\n"
    )

    verdict = classify(FailureText(None, (), trace))

    assert (verdict.slug, verdict.where) == ("user-code", "/project/pipelines/orders.py:5")


def test_the_place_names_the_file_that_the_user_knows() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/srv/shop/.headrace/versions/3f9ac1/files/pipelines/orders.py", line 3, in save\n'
        "    row['price']\n"
        "KeyError: 'price'\n"
    )

    assert classify(FailureText(None, (), trace)).where == "pipelines/orders.py:3"


def test_values_with_braces_stay_as_they_are() -> None:
    verdict = classify(python("ValueError: bad row {price} [x]"))

    assert "bad row {price} [x]" in verdict.what


def test_an_unknown_failure_of_the_jvm_is_not_blamed_on_the_code_that_called_it() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/project/pipelines/orders.py", line 3, in save\n'
        "    df.collect()\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling o15.collectToPython.\n"
        ": com.example.OddException: flux too low\n"
        "\tat com.example.Odd.run(Odd.java:3)\n"
    )

    verdict = classify(FailureText(None, (), trace))

    assert (verdict.slug, verdict.what) == ("unknown", "OddException: flux too low")
    assert verdict.where == "/project/pipelines/orders.py:3"


def test_an_expression_that_fails_is_told_with_the_line_that_made_it() -> None:
    said = (
        '[CAST_INVALID_INPUT] The value \'ten\' of the type "STRING" cannot be cast to "DOUBLE".'
        ' SQLSTATE: 22018\n== DataFrame ==\n"cast" was called from\n'
        "/project/.headrace/versions/0a1b2c/files/pipelines/shop.py:13\n"
    )

    verdict = classify(cause("org.apache.spark.SparkNumberFormatException", said))

    assert verdict.where == "pipelines/shop.py:13"


@pytest.mark.parametrize("entry", search_order.ENTRIES, ids=lambda entry: str(entry.slug))
def test_a_new_checkpoint_is_never_recommended_without_a_new_folder_for_a_file_sink(
    entry: CatalogueEntry,
) -> None:
    assert entry.fix.count("new `checkpoint`") == entry.fix.count("a new folder for a file sink")
