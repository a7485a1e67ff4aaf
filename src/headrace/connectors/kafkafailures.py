"""What Kafka's own client (confluent-kafka) tells of a failure, as what, why and fix;
and that client itself, which is an extra: where it is missing, that is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectorError, Error, SetupError

if TYPE_CHECKING:
    from headrace.connectors.kafka import Kafka


def confluent() -> Any:
    try:
        import confluent_kafka
    except ImportError as exc:
        raise SetupError(
            "The client for Kafka is not installed.",
            why="Headrace itself asks brokers by confluent-kafka; Spark has a client of its own.",
            fix='pip install "headrace[kafka]"',
            slug="kafka-client-missing",
        ) from exc
    return confluent_kafka


def cause(said: Iterable[Any], error: Any) -> Any:
    """Of what a client said while it tried, and the error at the end: the one that explains it."""
    code = confluent().KafkaError
    order = (code._AUTHENTICATION, code._SSL, code._RESOLVE, code._TRANSPORT)
    told = [*said, error]
    return next((one for kind in order for one in told if one.code() == kind), error)


def is_leaderless(code: int) -> bool:
    """Whether the broker that was asked does not lead the partition, or not yet."""
    known = confluent().KafkaError
    return code in (
        known.LEADER_NOT_AVAILABLE,
        known.NOT_LEADER_FOR_PARTITION,
        known.REPLICA_NOT_AVAILABLE,
        known.FENCED_LEADER_EPOCH,
        known.UNKNOWN_LEADER_EPOCH,
        known.OFFSET_NOT_AVAILABLE,
    )


def explained(servers: str, code: int, words: str, connector: Kafka) -> Error:
    """A failure of librdkafka as what, why and fix. Pure but for the table of its codes."""
    known = confluent().KafkaError
    user = f" as {connector.user!r}" if connector.user else ""
    if code == known._AUTHENTICATION:
        return ConnectorError(
            f"{servers} refused the login{user}.",
            why=words,
            fix="Look at user, password and mechanism; the listener has to offer that mechanism.",
            slug="kafka-refused",
        )
    # An alert of TLS comes as a mere disconnect, a missing file as an argument.
    if code == known._SSL or "SSL" in words or "ssl." in words:
        is_trust = "verify failed" in words
        return ConnectorError(
            f"{servers} and this client do not agree on TLS.",
            why=words,
            fix="ca has to name the authority (PEM) that signed the broker's certificate, and that "
            "one the host by which servers calls it."
            if is_trust
            else "Look whether the port is a TLS listener, and whether it wants a certificate of "
            "the client (certificate, key) and trusts that one.",
            slug="kafka-tls",
        )
    if code in (known.TOPIC_AUTHORIZATION_FAILED, known.GROUP_AUTHORIZATION_FAILED):
        return ConnectorError(
            f"The login{user} may not do that on {servers}.",
            why=words,
            fix="Grant it: READ and DESCRIBE on the topic to read, WRITE and DESCRIBE to write.",
            slug="kafka-acl",
        )
    if code in (known.UNKNOWN_TOPIC_OR_PART, known._UNKNOWN_TOPIC, known._UNKNOWN_PARTITION):
        return ConnectorError(
            f"A topic or partition is not there any more on {servers}.",
            why=words,
            fix="Look whether somebody deleted it, or make it again.",
            slug="kafka-no-topic",
        )
    if code == known._AUTO_OFFSET_RESET:
        return ConnectorError(
            f"{servers} has deleted records before they were read.",
            why=words,
            fix="Let the topic keep records longer (retention.ms).",
            slug="kafka-gone",
        )
    if is_leaderless(code):
        return SetupError(
            f"A partition on {servers} has no leader.",
            why=words,
            fix="Look whether all brokers of the cluster run; one that has just started needs some "
            "seconds.",
            slug="kafka-unreachable",
        )
    return SetupError(
        f"{servers} does not answer.",
        why=words,
        fix="Look whether the broker runs, whether host and port are right, and whether the "
        "listener is plain or TLS. A broker to develop with: headrace kafka up.",
        slug="kafka-unreachable",
    )
