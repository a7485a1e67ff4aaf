"""Failures of Kafka, Event Hubs and Kinesis."""

from __future__ import annotations

from headrace.failures.catalogue_entry import NEW_CHECKPOINT, CatalogueEntry, FailureKind

_TOPICS = (
    r"[Tt]opics?:? \[?'?(?P<topic>[\w.-]+)",
    r"\b[Pp]artition (?P<topic>[\w.-]+)-\d+\b",
    r"for partition (?P<topic>[\w.-]+)-\d+",
)

ENTRIES = (
    CatalogueEntry(
        "topic-went-back",
        # A few retries tell a brief broker fault from a recreated topic.
        FailureKind.RETRY_THEN_HUMAN,
        retries=3,
        conditions=("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",),
        patterns=(
            r"Partition (?P<topic>[\w.-]+)-(?P<partition>\d+)'s offset was changed "
            r"from (?P<before>\d+) to (?P<now>\d+)",
            r"offset was changed from \S+ to",
        ),
        what="The end offset of a Kafka topic moved backwards[: {topic}][, partition {partition}]"
        "[, from {before}][ to {now}].",
        why="Either a broker briefly returned an outdated offset, or the topic was deleted and "
        "created again.",
        fix=f"If the topic was created again, set {NEW_CHECKPOINT}: the query then reads the "
        "new topic from `starting`. To continue at the end of the topic instead, run `headrace "
        "start NAME --accept-gap`. If this is the first run, correct `starting`, which is past "
        "the end of the topic.",
    ),
    CatalogueEntry(
        "kafka-data-lost",
        FailureKind.HUMAN,
        conditions=("KAFKA_DATA_LOSS.*",),
        patterns=(r"Some data may have been lost", r"\bOffsetOutOfRangeException\b"),
        names=_TOPICS,
        what="Kafka deleted records before they were read[: topic {topic}].",
        why="Their retention period ended, or the topic was deleted.",
        fix="`headrace why NAME` shows how many records are missing. Check whether another system "
        "still has them, and increase the topic's retention. To continue without them, run "
        "`headrace start NAME --accept-gap`; in a script, set the source option failOnDataLoss to "
        "false.",
    ),
    CatalogueEntry(
        "partitions-changed-while-draining",
        FailureKind.RETRY,
        conditions=(
            "MISMATCHED_TOPIC_PARTITIONS_*",
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_*",
            "END_OFFSET_HAS_GREATER_OFFSET_*",
        ),
        names=_TOPICS,
        what="A topic's partitions changed during an available-now run[: {topic}].",
        why="The run set its end offsets before the change.",
        fix="Usually no action is needed. If this keeps happening, upgrade Spark (SPARK-53560).",
    ),
    CatalogueEntry(
        "starting-offsets-incomplete",
        FailureKind.HUMAN,
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
        what="The starting offsets do not match the topic's partitions.",
        why="They must list every partition that is read, and no others[. Listed: {given}][; "
        "expected: {there}].",
        fix='List every partition in `starting`, or use "earliest" or "latest".',
    ),
    CatalogueEntry(
        "kafka-unreachable",
        FailureKind.RETRY,
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
        why="A broker may be down, slow or unreachable from this machine, or a partition may "
        "have no leader: {message}",
        fix="Check the brokers and the address in `servers`. On a slow network, increase "
        "request.timeout.ms and default.api.timeout.ms.",
    ),
    CatalogueEntry(
        "topic-missing",
        FailureKind.RETRY_THEN_HUMAN,
        retries=3,
        patterns=(r"\bUnknownTopicOrPartitionException\b|UNKNOWN_TOPIC_OR_PART",),
        names=_TOPICS,
        what="The Kafka topic does not exist[: {topic}].",
        why="It has not been created yet, it was deleted, or its name is wrong.",
        fix="Create the topic, or correct its name in headrace.toml or in the pipeline file.",
    ),
    CatalogueEntry(
        "kafka-login-failed",
        FailureKind.HUMAN,
        patterns=(
            r"\bSaslAuthenticationException\b|\bSslAuthenticationException\b",
            r"No LoginModule found|unable to find LoginModule class",
            r"PKIX path building failed|SSLHandshakeException",
        ),
        hints=(r"Failed to construct kafka consumer|Failed to create new KafkaAdminClient",),
        what="Kafka rejected the login, or this machine does not trust the broker's certificate.",
        why="{type}[: {message}]",
        fix="Check the connection's user, password, JAAS configuration and truststore, then run "
        "`headrace start NAME`.",
    ),
    CatalogueEntry(
        "kafka-not-allowed",
        FailureKind.HUMAN,
        patterns=(
            r"\b(?:Topic|Group|Cluster|TransactionalId)AuthorizationException\b",
            r"\b(?:TOPIC|GROUP|CLUSTER|TRANSACTIONAL_ID)_AUTHORIZATION_FAILED\b",
        ),
        names=(r"topics:? \[?(?P<topic>[\w.-]+)", r"group:? (?P<group>[\w.-]+)"),
        what="Kafka denied this user access[: topic {topic}][: group {group}].",
        why="An ACL is missing.",
        fix="To read, grant Describe and Read on the topic; to write, grant Describe and Write. "
        "If groups have ACLs, also grant Read on groups with the prefix `spark-kafka-source`. A "
        "sink with exactly_once also needs Write on transactional ids and Read on groups with "
        "the prefix `headrace-`. Then run `headrace start NAME`.",
    ),
    CatalogueEntry(
        "kafka-transaction-refused",
        FailureKind.HUMAN,
        patterns=(r"\bINVALID_TRANSACTION_TIMEOUT\b",),
        what="Kafka rejected the sink's transaction timeout.",
        why="The sink requests 15 minutes, but the broker's transaction.max.timeout.ms is lower.",
        fix="Increase transaction.max.timeout.ms on the broker, or set a lower "
        '"kafka.transaction.timeout.ms" in the sink\'s options. Each batch must then be written '
        "within that time.",
    ),
    CatalogueEntry(
        "kafka-fenced",
        # After a broker outage that was longer than the transaction timeout, the next run succeeds.
        # A copy that runs elsewhere would fence us again after every start, so retries are limited.
        FailureKind.RETRY_THEN_HUMAN,
        retries=3,
        patterns=(
            r"\bKafkaError\{.*(?:_FENCED|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH)",
            r"\bProducerFencedException\b|\bInvalidProducerEpochException\b",
        ),
        what="Kafka fenced this run's transactional producer.",
        why="Either another run of the same query is writing to the topic, or a long batch or a "
        "broker outage kept a transaction open for longer than its timeout (15 minutes). No "
        "part of the batch was committed.",
        fix="Check that no copy of the pipeline is running elsewhere. If batches are long, make "
        "them smaller (max_rows). Then run `headrace start NAME`.",
    ),
    CatalogueEntry(
        "kafka-row-too-large",
        FailureKind.DATA,
        patterns=(r"\bRecordTooLargeException\b", r"\bMSG_SIZE_TOO_LARGE\b"),
        names=(
            r"The message is (?P<bytes>\d+) bytes when serialized which is larger than "
            r"(?:the total memory buffer you have configured with the (?P<buffer>buffer\.memory)"
            r"|(?P<limit>\d+))",
        ),
        what="An output row is too large for Kafka[: {bytes} bytes][; the limit is {limit}].",
        why="The sink's client sends at most max.request.size (1 MB) and buffers at most "
        "buffer.memory (32 MB); the topic accepts at most max.message.bytes (1 MB).",
        fix='Shorten such rows, or drop them: where("octet_length(value) < 1000000"). Or '
        'increase all three limits to more than the row size: "kafka.max.request.size" and '
        '"kafka.buffer.memory" in the sink\'s options, and max.message.bytes on the topic.',
    ),
    CatalogueEntry(
        "kafka-row-refused",
        FailureKind.DATA,
        conditions=("KAFKA_NULL_TOPIC_IN_DATA",),
        patterns=(
            r"null topic present in the data|data sent to the producer contains a null topic",
        ),
        what="An output row has no topic.",
        why="The sink sets no `topic`, and the row's topic column is null.",
        fix='Set `topic` on the sink, or drop such rows: where("topic IS NOT NULL").',
    ),
    CatalogueEntry(
        "event-hubs-reader-displaced",
        FailureKind.RETRY_THEN_HUMAN,
        retries=3,
        patterns=(r"\bReceiverDisconnectedException\b",),
        what="Another reader took over this Event Hubs consumer group.",
        why="Within a consumer group, only one reader at a time can read a partition.",
        fix="Give this pipeline its own consumer group.",
    ),
    CatalogueEntry(
        "kinesis-metadata-lost",
        FailureKind.HUMAN,
        patterns=(
            r"Unable to fetch committed metadata",
            r"Gave up after .*retries while fetching MetaData",
            r"(?s)\bResourceNotFoundException\b.*[Ss]hard",
        ),
        what="Kinesis no longer has the data that the checkpoint refers to.",
        why="A shard has expired, or the connector's metadata does not match the checkpoint.",
        fix="Restore the checkpoint and the connector's metadata together from a backup, or set "
        f"{NEW_CHECKPOINT}.",
    ),
    CatalogueEntry(
        "throttled",
        FailureKind.RETRY,
        patterns=(
            r"\bProvisionedThroughputExceeded|\bLimitExceeded(?:Exception)?\b",
            r"\bServerBusy(?:Exception)?\b",
            r"\bHTTP Error 429\b|\b429 Client Error\b|\bToo Many Requests\b",
        ),
        what="The service is throttling this reader or writer.",
        why="The request rate exceeds the service's limits.",
        fix="Lower the source's rate limit, or add shards or throughput units.",
    ),
)
