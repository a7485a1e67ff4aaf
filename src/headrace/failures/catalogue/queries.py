"""Failures of a query as a whole: definitions, names, sources, jars, the JVM, the process."""

from __future__ import annotations

from headrace.failures.catalogue_entry import NEW_CHECKPOINT, CatalogueEntry, FailureKind

_CHOOSE_START = (
    "Go back to the earlier definition (`headrace rollback NAME`), or set "
    f"{NEW_CHECKPOINT} and choose where the sources start."
)

UNKNOWN = CatalogueEntry(
    "unknown",
    FailureKind.UNKNOWN,
    what="{type}[: {message}]",
    why="This failure is not in Headrace's catalogue. The message is that of its deepest cause; "
    "its fingerprint is {fingerprint}.",
    fix="Run `headrace logs NAME` for the full trace, and `headrace why NAME` to see how often "
    "this failure has occurred.",
)

VANISHED = CatalogueEntry(
    "vanished",
    FailureKind.RETRY,
    what="The driver process exited without reporting an error.",
    why="It was probably killed (by kill -9 or by the kernel's out-of-memory killer), or the "
    "machine went down.",
    fix="If this keeps happening, search the system log for `Out of memory: Killed process`, and "
    "read the last lines of `headrace logs NAME`.",
)

ENTRIES = (
    CatalogueEntry(
        "query-already-starting",
        FailureKind.RETRY_THEN_HUMAN,
        retries=1,
        conditions=("CONCURRENT_QUERY",),
        patterns=(r"Cannot start query with id .*(?:same id is already|already active)",),
        what="The same query was started twice in this driver.",
        why="Only one active query can use a checkpoint, and the first query had not stopped yet.",
        fix="If this keeps happening, make sure that the code starts the query in only one place.",
    ),
    CatalogueEntry(
        "duplicate-query-name",
        FailureKind.HUMAN,
        patterns=(r"Cannot start query with name (?P<name>\S+).* already active",),
        what="Two queries have the same name[: {name}].",
        why="Query names must be unique within a Spark session.",
        fix="Give every query a unique name, then run `headrace up`.",
    ),
    CatalogueEntry(
        "sources-changed",
        FailureKind.HUMAN,
        patterns=(
            r"(?:There are \[(?P<before>\d+)\] )?sources in the checkpoint offsets and now there "
            r"are(?: \[(?P<now>\d+)\])?",
        ),
        what="The number of sources in the query has changed[ from {before}][ to {now}].",
        why="The checkpoint stores one position for each source, in order, and these positions do "
        "not match the new sources.",
        fix=_CHOOSE_START,
    ),
    CatalogueEntry(
        "source-kind-changed",
        FailureKind.HUMAN,
        patterns=(
            r'NumberFormatException: For input string: "\{"',
            r'Expected e\.g\. \{"topicA":.*, got \{',
        ),
        what="A source in the query was replaced with a different kind of source.",
        why="The new source cannot read the position that the previous one stored in the "
        "checkpoint.",
        fix=_CHOOSE_START,
    ),
    CatalogueEntry(
        "definition-not-supported",
        FailureKind.HUMAN,
        conditions=(
            "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK",
            "STREAMING_OUTPUT_MODE.*",
            "STREAMING_REAL_TIME_MODE.*",
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
            "CALL_ON_STREAMING_DATASET_UNSUPPORTED",
            "WRITE_STREAM_NOT_ALLOWED",
            "UNRESOLVED_COLUMN.*",
            "UNRESOLVED_ROUTINE",
            "AMBIGUOUS_REFERENCE",
            "DATATYPE_MISMATCH.*",
            "PARSE_SYNTAX_ERROR",
            "TABLE_OR_VIEW_NOT_FOUND",
        ),
        patterns=(
            r"checkpointLocation must be specified",
            r"Schema must be specified when creating",
        ),
        hints=(r"^\S*(?:AnalysisException|ParseException)\b",),
        names=(r"with name (?P<column>`[^`\n]+`) cannot be resolved",),
        what="Spark rejected the query[: column {column} does not exist].",
        why="{message}",
        fix="Correct the query, then start it again with `headrace run` or `headrace up`.",
    ),
    CatalogueEntry(
        "library-missing",
        FailureKind.HUMAN,
        conditions=("DATA_SOURCE_NOT_FOUND", "PYTHON_VERSION_MISMATCH"),
        patterns=(
            r"Failed to find (?:the )?data source:? \"?(?P<source>[\w.$-]+?)\"?[.\s]",
            r"\b(?:NoClassDefFoundError|ClassNotFoundException): (?P<class>[\w./$]+)",
            r"\b(?:NoClassDefFoundError|NoSuchMethodError|IncompatibleClassChangeError"
            r"|AbstractMethodError|UnsupportedClassVersionError)\b",
            r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
            r"(?P<class>No suitable driver)",
        ),
        what="A library is missing or incompatible with this version of Spark[: data source "
        "{source}][: {class}].",
        why="The jar is missing or was built for a different version of Spark, or the driver and "
        "the workers run different versions of Python.",
        fix="Add the matching jar to `spark.jars` or `spark.jars.packages` under [spark] in "
        "headrace.toml, or install the same version of Python everywhere; then run `headrace up`.",
    ),
    CatalogueEntry(
        "python-function-cannot-travel",
        FailureKind.HUMAN,
        conditions=(
            "STREAMING_CONNECT_SERIALIZATION_ERROR",
            "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE",
            "STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE",
        ),
        patterns=(r"CONTEXT_ONLY_VALID_ON_DRIVER", r"Could not serialize object"),
        what="A Python function in the query could not be sent to a worker.",
        why="The function refers to an object that exists only in the driver, such as the Spark "
        "session, a lock or a connection.",
        fix="Inside the function, use the batch's session (`df.sparkSession`) instead of one from "
        "outside the function, and create locks, connections and clients there, too.",
    ),
    CatalogueEntry(
        "python-runner-slow",
        FailureKind.RETRY,
        conditions=("STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE",),
        what="A Python worker for the query did not start in time.",
        why="The machine may be overloaded, or the worker's imports may take too long.",
        fix="If this keeps happening, check the load on the machine and what the pipeline file "
        "imports.",
    ),
    CatalogueEntry(
        "source-naming-or-repartition",
        FailureKind.HUMAN,
        conditions=(
            "STREAMING_QUERY_EVOLUTION_ERROR.*",
            "STATE_REPARTITION_INVALID_CHECKPOINT.*",
            "STREAMING_UNFINISHED_REPARTITION_DETECTED",
        ),
        what="Spark rejected the query: its source or sink names are invalid, or a repartitioning "
        "of its state has not been completed.",
        why="{message}",
        fix="Follow the instructions in the message. If a repartitioning of this "
        "checkpoint was started, complete it before you start the query.",
    ),
    CatalogueEntry(
        "spark-stopped",
        FailureKind.HUMAN,
        patterns=(
            r"Cannot call methods on a stopped SparkContext",
            r"SparkContext\.\w+\(\)\" is null",
            r"'NoneType' object has no attribute '(?:sc|_jsc|_jvm|setCallSite)'",
        ),
        what="The Spark session was stopped while a query was using it.",
        why="Code in the pipeline called stop() on the session or on its Spark context.",
        fix="Remove the call of stop(): Headrace ends the session when the run ends. Then run "
        "`headrace up`.",
    ),
    CatalogueEntry(
        "bridge-stuck",
        FailureKind.RETRY,
        patterns=(
            r"failed to stop within \d+ milliseconds",
            r"Error while obtaining a new communication channel",
            r"\bPy4JNetworkException\b",
        ),
        what="Python and the JVM could not communicate.",
        why="The Py4J gateway is stuck, or a query's thread did not stop when it was asked to.",
        fix="Usually no action is needed. If this keeps happening, see `headrace logs NAME`.",
    ),
    CatalogueEntry(
        "jvm-died",
        FailureKind.RETRY,
        patterns=(
            r"Answer from Java side is empty",
            r"\bPy4JNetworkError\b",
            r"(?s)^(?:builtins\.)?(?:Connection\w*Error|BrokenPipeError)\b.*\nraised in py4j$",
        ),
        what="The driver's JVM died.",
        why="It crashed, or it was killed by a user or by the kernel's out-of-memory killer.",
        fix="If this keeps happening, look for `hs_err_pid*.log` in the project folder and for "
        "`Out of memory` in the system log, and adjust spark.driver.memory.",
    ),
    CatalogueEntry(
        "java-did-not-start",
        FailureKind.RETRY_THEN_HUMAN,
        retries=3,
        conditions=("JAVA_GATEWAY_EXITED",),
        patterns=(r"Java gateway process exited before sending its port number",),
        what="Java exited before Spark was ready.",
        why="Either Java 17 or 21 is not installed, or a JVM option is wrong, or a package in "
        "spark.jars.packages could not be downloaded.",
        fix="Read the first lines of `headrace logs NAME`, and run `java -version`.",
    ),
)
