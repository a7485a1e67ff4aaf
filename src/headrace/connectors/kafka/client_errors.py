"""Errors of the confluent-kafka client as what, why and fix; and the import of that client, which
is an optional dependency.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectorError, Error, SetupError
from headrace.spelling import suggest

if TYPE_CHECKING:
    from headrace.connectors.kafka.connector import Kafka


def confluent() -> Any:
    try:
        import confluent_kafka
    except ImportError as exc:
        raise SetupError(
            "The Kafka client is not installed.",
            why="Headrace queries brokers through confluent-kafka, which is an optional "
            "dependency.",
            fix='pip install "headrace[kafka]"',
            slug="kafka-client-missing",
        ) from exc
    return confluent_kafka


def retry(
    call: Callable[[], Any], within_s: float, pause_s: float, is_passing: Callable[[Any], bool]
) -> Any:
    """Call until it succeeds; raises on an error that will not pass, or when the time is over."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return call()
        except confluent().KafkaException as exc:
            if not is_passing(exc.args[0]) or time.monotonic() > deadline:
                raise
        time.sleep(pause_s)


def cause(events: Iterable[Any], error: Any) -> Any:
    """The most specific of the client's error events and the final error."""
    code = confluent().KafkaError
    order = (code._AUTHENTICATION, code._SSL, code._RESOLVE, code._TRANSPORT)
    errors = [*events, error]
    return next((one for kind in order for one in errors if one.code() == kind), error)


def is_leaderless(code: int) -> bool:
    """Whether the broker does not lead the partition, or not yet."""
    known = confluent().KafkaError
    return code in (
        known.LEADER_NOT_AVAILABLE,
        known.NOT_LEADER_FOR_PARTITION,
        known.REPLICA_NOT_AVAILABLE,
        known.FENCED_LEADER_EPOCH,
        known.UNKNOWN_LEADER_EPOCH,
        known.OFFSET_NOT_AVAILABLE,
    )


def no_topic(servers: str, name: str | None, why: str, known: Iterable[str] = ()) -> ConnectorError:
    return ConnectorError(
        f"Topic {name!r} was not found on {servers}.",
        why=why,
        fix=suggest(
            name or "",
            known,
            "Create the topic, or check that this client has the Describe permission on it.",
        ),
        slug="kafka-no-topic",
    )


def explain_error(servers: str, code: int, words: str, connector: Kafka) -> Error:
    known = confluent().KafkaError
    user = f" {connector.login.user!r}" if connector.login.user else ""

    def refused(what: str, fix: str, *, slug: str) -> Error:
        return ConnectorError(what, why=words, fix=fix, slug=slug)

    if code == known._AUTHENTICATION:
        fix = "Check the user and the password, and that the listener supports the mechanism."
        return refused(f"{servers} rejected the login{user}.", fix, slug="kafka-refused")
    # A TLS alert is reported as a disconnect, a missing file as an invalid argument.
    if code == known._SSL or "SSL" in words or "ssl." in words:
        fix = "Check that the port is a TLS listener. If it requires a client certificate, set "
        fix += "certificate and key to a pair that the broker trusts."
        if "verify failed" in words:
            fix = (
                "Set ca to the PEM file of the authority that signed the broker's certificate, and "
            )
            fix += "use the host name from that certificate in servers."
        return refused(f"The TLS connection to {servers} failed.", fix, slug="kafka-tls")
    if code == known.GROUP_AUTHORIZATION_FAILED:
        fix = "Grant READ and DESCRIBE on the consumer group."
        return refused(f"The login{user} lacks a permission on {servers}.", fix, slug="kafka-acl")
    if code == known.TOPIC_AUTHORIZATION_FAILED:
        fix = "To read, grant READ and DESCRIBE on the topic; to write, grant WRITE and DESCRIBE."
        return refused(f"The login{user} lacks a permission on {servers}.", fix, slug="kafka-acl")
    if code in (known.UNKNOWN_TOPIC_OR_PART, known._UNKNOWN_TOPIC, known._UNKNOWN_PARTITION):
        what = f"A topic or partition no longer exists on {servers}."
        fix = "If the topic was deleted, create it again. Otherwise, check its name and partitions."
        return refused(what, fix, slug="kafka-no-topic")
    if code == known._AUTO_OFFSET_RESET:
        what = f"{servers} deleted records before they were read."
        return refused(what, "Increase the topic's retention.ms.", slug="kafka-gone")
    what = f"{servers} does not answer."
    fix = "Check that the broker is running, that the host and port are correct, and that the "
    fix += "TLS settings match the listener. To start a development broker: headrace kafka up"
    if is_leaderless(code):
        what = f"A partition on {servers} has no leader."
        fix = "Check that all brokers in the cluster are running. A broker that has just started "
        fix += "needs a few seconds."
    return SetupError(what, why=words, fix=fix, slug="kafka-unreachable")
