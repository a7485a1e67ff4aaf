"""Failures of a query as such: definitions, names, sources, jars, the JVM, the process.

Read through `table`. Kinds come from what a second try could change: nothing, for a definition.
"""

from __future__ import annotations

from headrace.failures.entry import NEW_CHECKPOINT, Entry, Kind

UNKNOWN = Entry(
    1,
    "unknown",
    Kind.UNKNOWN,
    what="{type}[: {message}]",
    why="This failure is not in Headrace's catalogue; Spark's own words are all that is known.",
    fix="See the whole trace with `headrace logs NAME`; the last `Caused by:` is the nearest to "
    "the cause.",
)

VANISHED = Entry(
    56,
    "vanished",
    Kind.RETRY,
    what="The driver process is gone and left no word.",
    why="It was killed (kill -9, the system's out-of-memory killer) or the machine went down.",
    fix="It is started again by itself. If this repeats, look in the system's log for `Out of "
    "memory: Killed process`, and see `headrace logs NAME` for its last lines.",
)

ENTRIES = (
    Entry(
        3,
        "query-already-starting",
        Kind.RETRY_THEN_HUMAN,
        retries=1,
        conditions=("CONCURRENT_QUERY",),
        patterns=(
            r"Cannot start query with id (?P<id>\S+) as another query with same id is already",
            r"Cannot start query with id .*already active",
        ),
        what="The same query was started twice in this driver.",
        why="An earlier start of it had not ended yet.",
        fix="If it happens again, start the query in one place of the code only.",
    ),
    Entry(
        4,
        "duplicate-query-name",
        Kind.HUMAN,
        patterns=(r"Cannot start query with name (?P<name>\S+).* already active",),
        what="Two queries have the same name[: {name}].",
        why="Spark accepts a name once in a session.",
        fix="Give every query a name of its own, then `headrace up`.",
    ),
    Entry(
        7,
        "sources-changed",
        Kind.HUMAN,
        patterns=(
            r"There are \[(?P<before>\d+)\] sources in the checkpoint offsets and now there are "
            r"\[(?P<now>\d+)\]",
            r"sources in the checkpoint offsets and now there are",
        ),
        what="The number of sources of the query has changed[ from {before}][ to {now}].",
        why="The checkpoint keeps one position for each source, by order, and cannot be matched "
        "to the new ones.",
        fix="Go back to the earlier definition (`headrace rollback NAME`), or set "
        f"{NEW_CHECKPOINT}, and choose where its sources start.",
    ),
    Entry(
        7,
        "source-kind-changed",
        Kind.HUMAN,
        patterns=(
            r'NumberFormatException: For input string: "\{"',
            r'Expected e\.g\. \{"topicA":.*, got \{',
        ),
        what="A source of the query was replaced by one of another kind.",
        why="The earlier source wrote the checkpoint's position; the new one cannot read it.",
        fix="Go back to the earlier definition (`headrace rollback NAME`), or set "
        f"{NEW_CHECKPOINT}, and choose where its sources start.",
    ),
    Entry(
        49,
        "definition-not-supported",
        Kind.HUMAN,
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
        what="Spark does not accept the query as it is written[: column {column} is not there].",
        why="{message}",
        fix="Correct the query, then start it again: `headrace run` or `headrace up`.",
    ),
    Entry(
        50,
        "library-missing",
        Kind.HUMAN,
        conditions=("DATA_SOURCE_NOT_FOUND", "PYTHON_VERSION_MISMATCH"),
        patterns=(
            r"Failed to find (?:the )?data source:? \"?(?P<source>[\w.$-]+?)\"?[.\s]",
            r"\b(?:NoClassDefFoundError|ClassNotFoundException): (?P<class>[\w./$]+)",
            r"\b(?:NoClassDefFoundError|NoSuchMethodError|IncompatibleClassChangeError"
            r"|AbstractMethodError|UnsupportedClassVersionError)\b",
            r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
        ),
        what="A library is missing or does not fit this Spark[: data source {source}][: {class}].",
        why="The jar is not there, is made for another version of Spark, or Python differs "
        "between driver and workers.",
        fix="Put the right jar into `spark.jars` or `spark.jars.packages` under [spark] in "
        "headrace.toml (for Python: the same version everywhere), then `headrace up`.",
    ),
    Entry(
        51,
        "python-function-cannot-travel",
        Kind.HUMAN,
        conditions=(
            "STREAMING_CONNECT_SERIALIZATION_ERROR",
            "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE",
            "STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE",
        ),
        patterns=(r"CONTEXT_ONLY_VALID_ON_DRIVER", r"Could not serialize object"),
        what="A Python function of the query could not be sent to its worker.",
        why="It holds something that belongs to the driver, usually the Spark session, or its "
        "worker could not start.",
        fix="Use `df.sparkSession` of the batch instead of a session from outside the function.",
    ),
    Entry(
        51,
        "python-runner-slow",
        Kind.RETRY,
        conditions=("STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE",),
        what="A Python worker of the query did not start in time.",
        why="The machine was too busy, or the worker's imports take long.",
        fix="It is tried again by itself. If this repeats, see the machine's load and what the "
        "file imports.",
    ),
    Entry(
        52,
        "source-naming-or-repartition",
        Kind.HUMAN,
        conditions=(
            "STREAMING_QUERY_EVOLUTION_ERROR.*",
            "STATE_REPARTITION_INVALID_CHECKPOINT.*",
            "STREAMING_UNFINISHED_REPARTITION_DETECTED",
        ),
        what="Named sources or a change of state partitions ask for something that is not met.",
        why="{message}",
        fix="Do what the message names. If a repartition was begun on this checkpoint, finish it "
        "first.",
    ),
    Entry(
        53,
        "bridge-stuck",
        Kind.RETRY,
        patterns=(
            r"failed to stop within \d+ milliseconds",
            r"Error while obtaining a new communication channel",
            r"\bPy4JNetworkException\b",
        ),
        what="Python and the JVM no longer hear each other.",
        why="The bridge between them is stuck, or a query's thread did not end when it was told "
        "to.",
        fix="The driver is replaced by a new process by itself. If this repeats, see `headrace "
        "logs NAME`.",
    ),
    Entry(
        55,
        "jvm-died",
        Kind.RETRY,
        patterns=(
            r"Answer from Java side is empty",
            r"\bPy4JNetworkError\b",
            r"(?s)^(?:builtins\.)?(?:Connection\w*Error|BrokenPipeError)\b.*\nraised in py4j$",
        ),
        what="The JVM of the driver is gone.",
        why="It was killed (by a person or by the system, often for memory) or crashed.",
        fix="It is started again by itself. If this repeats, look for `hs_err_pid*.log` in the "
        "project, for `Out of memory` in the system's log, and raise or lower "
        "spark.driver.memory.",
    ),
    Entry(
        57,
        "java-did-not-start",
        Kind.RETRY_THEN_HUMAN,
        retries=3,
        conditions=("JAVA_GATEWAY_EXITED",),
        patterns=(r"Java gateway process exited before sending its port number",),
        what="Java ended before Spark was up.",
        why="Java 17 or 21 is not there, an option of the JVM is wrong, or a package of "
        "spark.jars.packages could not be downloaded.",
        fix="See the first lines of `headrace logs NAME`; try `java -version`.",
    ),
)
