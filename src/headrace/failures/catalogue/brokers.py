"""Failures of Kafka, Event Hubs and Kinesis. Read through `table`."""

from __future__ import annotations

from headrace.failures.entry import NEW_CHECKPOINT, Entry, Kind

_TOPICS = (
    r"[Tt]opics?:? \[?'?(?P<topic>[\w.-]+)",
    r"\b[Pp]artition (?P<topic>[\w.-]+)-\d+\b",
    r"for partition (?P<topic>[\w.-]+)-\d+",
)

ENTRIES = (
    Entry(
        21,
        "topic-went-back",
        # A probe of the topic's head would tell a passing broker fault from a recreated topic.
        # There is none yet, so a few tries take its place.
        Kind.RETRY_THEN_HUMAN,
        retries=3,
        conditions=("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",),
        patterns=(
            r"Partition (?P<topic>[\w.-]+)-(?P<partition>\d+)'s offset was changed "
            r"from (?P<before>\d+) to (?P<now>\d+)",
            r"offset was changed from \S+ to",
        ),
        what="A Kafka topic's end moved backwards[: {topic}][ partition {partition}][ from "
        "{before}][ to {now}].",
        why="Either a broker gave an old answer for a moment, or the topic was deleted and "
        "recreated.",
        fix="`headrace why NAME` says what was found. If the topic was recreated, set "
        f"{NEW_CHECKPOINT}: it reads the new topic from where `starting` says. Or go on at its "
        "end: `headrace start NAME --accept-gap`. In a first run `starting` is beyond the end: "
        "correct it.",
    ),
    Entry(
        22,
        "kafka-data-lost",
        Kind.HUMAN,
        conditions=("KAFKA_DATA_LOSS.*",),
        patterns=(r"Some data may have been lost", r"\bOffsetOutOfRangeException\b"),
        names=_TOPICS,
        what="Records that were not read yet are gone from Kafka[: topic {topic}].",
        why="They were deleted by retention, or the topic was deleted.",
        fix="`headrace why NAME` says how many are gone. Look whether they can be had elsewhere, "
        "and raise the topic's retention. To go on without them: `headrace start NAME "
        "--accept-gap`; a script by its source's own option failOnDataLoss.",
    ),
    Entry(
        23,
        "partitions-changed-while-draining",
        Kind.RETRY,
        conditions=(
            "MISMATCHED_TOPIC_PARTITIONS_*",
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_*",
            "END_OFFSET_HAS_GREATER_OFFSET_*",
        ),
        names=_TOPICS,
        what="A topic's partitions changed while an available-now run was reading it[: {topic}].",
        why="The run had fixed its end before the change.",
        fix="It is started again by itself. If this repeats, upgrade Spark (SPARK-53560).",
    ),
    Entry(
        24,
        "starting-offsets-incomplete",
        Kind.HUMAN,
        conditions=(
            "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
            "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        ),
        patterns=(
            r"(?:START|TIMESTAMP)_OFFSET_DOES_NOT_MATCH",
            r"you must specify all TopicPartitions",
            r"timestamp based start offsets don't match what are assigned",
        ),
        names=(r"Specified: Set\((?P<given>[^)]*)\) Assigned: Set\((?P<there>[^)]*)\)",),
        what="The starting offsets do not name exactly the topic's partitions.",
        why="They have to name each partition that is read, and no other[; they name {given}][, "
        "and there are {there}].",
        fix='List every partition in `starting`, or use "earliest" or "latest".',
    ),
    Entry(
        25,
        "kafka-unreachable",
        Kind.RETRY,
        patterns=(
            r"org\.apache\.kafka\.common\.errors\.(?:TimeoutException|DisconnectException"
            r"|NotLeaderOrFollowerException|LeaderNotAvailableException|NetworkException"
            r"|BrokerNotAvailableException|CoordinatorNotAvailableException)",
            r"Cannot fetch record for offset",
            r"\bDisconnectException\b|NotLeaderOrFollower|LEADER_NOT_AVAILABLE",
            r"No resolvable bootstrap urls",
            r"\bKafkaError\{.*(?:_TRANSPORT|_ALL_BROKERS_DOWN|_TIMED_OUT)",
        ),
        names=_TOPICS,
        what="Kafka did not answer in time[: topic {topic}].",
        why="A broker is down, slow, changing leaders, or cannot be reached from here: {message}",
        fix="It is tried again by itself. Look at the brokers and at the address in `servers`; "
        "for a slow network raise request.timeout.ms and default.api.timeout.ms.",
    ),
    Entry(
        26,
        "topic-missing",
        Kind.RETRY_THEN_HUMAN,
        retries=3,
        patterns=(r"\bUnknownTopicOrPartitionException\b|UNKNOWN_TOPIC_OR_PART",),
        names=_TOPICS,
        what="The Kafka topic does not exist[: {topic}].",
        why="It was not created yet, was deleted, or its name is wrong.",
        fix="Create the topic, or correct its name in headrace.toml or the pipeline's file.",
    ),
    Entry(
        27,
        "kafka-login-failed",
        Kind.HUMAN,
        patterns=(
            r"\bSaslAuthenticationException\b|\bSslAuthenticationException\b",
            r"No LoginModule found|unable to find LoginModule class",
            r"PKIX path building failed|SSLHandshakeException",
        ),
        hints=(r"Failed to construct kafka consumer|Failed to create new KafkaAdminClient",),
        what="Kafka did not accept the login, or its certificate was not accepted here.",
        why="{type}[: {message}]",
        fix="Check user, password, JAAS line and truststore of the connection, then `headrace "
        "start NAME`.",
    ),
    Entry(
        28,
        "kafka-not-allowed",
        Kind.HUMAN,
        patterns=(
            r"\b(?:Topic|Group|Cluster|TransactionalId)AuthorizationException\b",
            r"\b(?:TOPIC|GROUP|CLUSTER|TRANSACTIONAL_ID)_AUTHORIZATION_FAILED\b",
        ),
        names=(r"topics:? \[?(?P<topic>[\w.-]+)", r"group:? (?P<group>[\w.-]+)"),
        what="This user may not use the Kafka topic or group[: topic {topic}][: group {group}].",
        why="An access rule (ACL) is missing.",
        fix="Grant Describe and Read on the topic (Write for a sink), and on groups that begin "
        "with `spark-kafka-source` if groups have rules. A sink with exactly_once needs Write on "
        "transactional ids and Read on groups that begin with `headrace-`. Then `headrace start "
        "NAME`.",
    ),
    Entry(
        28,
        "kafka-transaction-refused",
        Kind.HUMAN,
        patterns=(r"\bINVALID_TRANSACTION_TIMEOUT\b",),
        what="Kafka does not allow a transaction to take so long.",
        why="The sink asks for 15 minutes a batch, and the broker's transaction.max.timeout.ms is "
        "lower.",
        fix='Raise it at the broker, or ask for less: "kafka.transaction.timeout.ms" in the '
        "sink's options. A batch then has to be written in that time.",
    ),
    Entry(
        28,
        "kafka-fenced",
        # A broker that was away for longer than a transaction may take has ended it, and the next
        # run simply goes on. A copy that runs elsewhere is fenced in turn by every start of ours:
        # so a few tries, not endless ones.
        Kind.RETRY_THEN_HUMAN,
        retries=3,
        patterns=(
            r"\bKafkaError\{.*(?:_FENCED|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH)",
            r"\bProducerFencedException\b|\bInvalidProducerEpochException\b",
        ),
        what="Kafka takes no more transactions of this run.",
        why="A batch, or an outage of the broker in the middle of one, took longer than a "
        "transaction may (15 minutes); or another run of the same query writes to the topic.",
        fix="Nothing of the batch was committed. Look whether a copy of the pipeline runs "
        "elsewhere, and make long batches smaller (max_rows); then `headrace start NAME`.",
    ),
    Entry(
        29,
        "kafka-row-too-large",
        Kind.DATA,
        patterns=(r"\bRecordTooLargeException\b", r"\bMSG_SIZE_TOO_LARGE\b"),
        names=(
            r"The message is (?P<bytes>\d+) bytes when serialized which is larger than "
            r"(?:the total memory buffer you have configured with the (?P<buffer>buffer\.memory)"
            r"|(?P<limit>\d+))",
        ),
        what="A row of the output is too large for Kafka[: {bytes} bytes][, and {limit} are "
        "allowed].",
        why="The sink's client sends at most max.request.size (1 MB) and holds at most "
        "buffer.memory (32 MB); the topic takes at most max.message.bytes (1 MB).",
        fix='Drop or shorten such rows: where("octet_length(value) < 1000000"). Or raise all '
        'three above the row\'s size: "kafka.max.request.size" and "kafka.buffer.memory" in the '
        "sink's options, max.message.bytes of the topic.",
    ),
    Entry(
        29,
        "kafka-row-refused",
        Kind.DATA,
        conditions=("KAFKA_NULL_TOPIC_IN_DATA",),
        patterns=(r"null topic present in the data",),
        what="A row of the output names no topic.",
        why="The sink has no `topic`, and the row's column topic is null.",
        fix='Set `topic` on the sink, or drop such rows: where("topic IS NOT NULL").',
    ),
    Entry(
        46,
        "event-hubs-reader-displaced",
        Kind.RETRY_THEN_HUMAN,
        retries=3,
        patterns=(r"\bReceiverDisconnectedException\b",),
        what="Another reader took over this Event Hubs consumer group.",
        why="Only one reader may use a consumer group for a partition.",
        fix="Give this pipeline a consumer group of its own.",
    ),
    Entry(
        47,
        "kinesis-metadata-lost",
        Kind.HUMAN,
        patterns=(
            r"Unable to fetch committed metadata",
            r"Gave up after .*retries while fetching MetaData",
            r"(?s)\bResourceNotFoundException\b.*[Ss]hard",
        ),
        what="Kinesis no longer has what the checkpoint refers to.",
        why="A shard has expired, or the connector's metadata does not fit the checkpoint.",
        fix=f"Restore both together from a backup, or set {NEW_CHECKPOINT}.",
    ),
    Entry(
        48,
        "throttled",
        Kind.RETRY,
        patterns=(
            r"\bProvisionedThroughputExceeded|\bLimitExceeded(?:Exception)?\b",
            r"\bServerBusy(?:Exception)?\b",
        ),
        what="The service slows this reader or writer down.",
        why="More was asked of it than its limits allow.",
        fix="It is tried again by itself, later each time. Lower the rate limit of the source, or "
        "add shards or throughput units.",
    ),
)
