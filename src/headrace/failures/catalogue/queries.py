"""Failures of a query as a whole: definitions, names, sources, jars, the JVM, the process."""

from __future__ import annotations

from headrace.failures.catalogue_entry import NEW_CHECKPOINT, CatalogueEntry, FailureKind

_CHOOSE_START = (
    "Return to the earlier definition (`headrace rollback NAME`), or set "
    f"{NEW_CHECKPOINT}, and choose where its sources start."
)

UNKNOWN = CatalogueEntry(
    "unknown",
    FailureKind.UNKNOWN,
    what="{type}[: {message}]",
    why="This failure is not in Headrace's catalogue; only Spark's own message is known.",
    fix="`headrace logs NAME` has the full trace; the last `Caused by:` is closest to the cause.",
)

VANISHED = CatalogueEntry(
    "vanished",
    FailureKind.RETRY,
    what="The driver process disappeared without a message.",
    why="It was killed (kill -9, or the kernel's out-of-memory killer), or the machine went down.",
    fix="If it repeats, search the system log for `Out of memory: Killed process`, and see the "
    "last lines of `headrace logs NAME`.",
)

ENTRIES = (
    CatalogueEntry(
        "query-already-starting",
        FailureKind.RETRY_THEN_HUMAN,
        retries=1,
        conditions=("CONCURRENT_QUERY",),
        patterns=(r"Cannot start query with id .*(?:same id is already|already active)",),
        what="The same query was started twice in this driver.",
        why="An earlier start of it had not ended yet.",
        fix="If it repeats, start the query in only one place in the code.",
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
        what="The number of sources of the query has changed[ from {before}][ to {now}].",
        why="The checkpoint stores one position for each source, in order, and these do not match "
        "the new sources.",
        fix=_CHOOSE_START,
    ),
    CatalogueEntry(
        "source-kind-changed",
        FailureKind.HUMAN,
        patterns=(
            r'NumberFormatException: For input string: "\{"',
            r'Expected e\.g\. \{"topicA":.*, got \{',
        ),
        what="A source of the query was replaced by a source of another kind.",
        why="The new source cannot read the position that the earlier one stored in the "
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
        what="Spark rejects the query[: column {column} does not exist].",
        why="{message}",
        fix="Correct the query, then start it again: `headrace run` or `headrace up`.",
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
        ),
        what="A library is missing or incompatible with this Spark[: data source {source}][: "
        "{class}].",
        why="The jar is missing or built for another version of Spark, or driver and workers run "
        "different versions of Python.",
        fix="Put the right jar into `spark.jars` or `spark.jars.packages` under [spark] in "
        "headrace.toml (for Python: install the same version everywhere), then run `headrace up`.",
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
        what="A Python function of the query could not be sent to its worker.",
        why="It refers to an object that exists only in the driver, usually the Spark session, or "
        "its worker could not start.",
        fix="Use `df.sparkSession` of the batch instead of a session from outside the function.",
    ),
    CatalogueEntry(
        "python-runner-slow",
        FailureKind.RETRY,
        conditions=("STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE",),
        what="A Python worker of the query did not start in time.",
        why="The machine was overloaded, or the imports of the worker take too long.",
        fix="If it repeats, check the load of the machine and what the file imports.",
    ),
    CatalogueEntry(
        "source-naming-or-repartition",
        FailureKind.HUMAN,
        conditions=(
            "STREAMING_QUERY_EVOLUTION_ERROR.*",
            "STATE_REPARTITION_INVALID_CHECKPOINT.*",
            "STREAMING_UNFINISHED_REPARTITION_DETECTED",
        ),
        what="A requirement of named sources or of a state repartition is not met.",
        why="{message}",
        fix="Follow the message. If a repartition of this checkpoint was started, finish it first.",
    ),
    CatalogueEntry(
        "bridge-stuck",
        FailureKind.RETRY,
        patterns=(
            r"failed to stop within \d+ milliseconds",
            r"Error while obtaining a new communication channel",
            r"\bPy4JNetworkException\b",
        ),
        what="Python and the JVM cannot communicate.",
        why="The Py4J gateway is stuck, or the thread of a query did not stop when requested.",
        fix="Usually nothing to do. If it repeats, see `headrace logs NAME`.",
    ),
    CatalogueEntry(
        "jvm-died",
        FailureKind.RETRY,
        patterns=(
            r"Answer from Java side is empty",
            r"\bPy4JNetworkError\b",
            r"(?s)^(?:builtins\.)?(?:Connection\w*Error|BrokenPipeError)\b.*\nraised in py4j$",
        ),
        what="The JVM of the driver died.",
        why="It was killed (by a person, or by the system because of its memory use) or crashed.",
        fix="If it repeats, look for `hs_err_pid*.log` in the project and for `Out of memory` in "
        "the system log, and raise or lower spark.driver.memory.",
    ),
    CatalogueEntry(
        "java-did-not-start",
        FailureKind.RETRY_THEN_HUMAN,
        retries=3,
        conditions=("JAVA_GATEWAY_EXITED",),
        patterns=(r"Java gateway process exited before sending its port number",),
        what="Java ended before Spark was ready.",
        why="Java 17 or 21 is not installed, a JVM option is wrong, or a package in "
        "spark.jars.packages could not be downloaded.",
        fix="See the first lines of `headrace logs NAME`, and try `java -version`.",
    ),
)
