"""Sets the offsets of a consumer group to the position of a query, so that Kafka's tools show it.
Used by the relay.

Invariant: joins no group, and changes none that has members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.connectors.kafka.broker_client import create_client
from headrace.connectors.kafka.client_errors import confluent, explain_error
from headrace.connectors.kafka.connector import Kafka
from headrace.errors import ConnectorError, Error, SetupError


class ConsumerGroups:
    def __init__(self, connector: Kafka, within_s: float) -> None:
        confluent()  # raises if it is not installed
        from confluent_kafka.admin import AdminClient

        self._connector = connector
        self._within_s = within_s
        self._admin = create_client(AdminClient, connector, {})

    def move(self, group: str, positions: Mapping[str, Mapping[int, int]]) -> None:
        """`positions`: the next offset by topic and partition."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        kafka = confluent()
        wanted = [
            kafka.TopicPartition(topic, partition, offset)
            for topic, partitions in positions.items()
            for partition, offset in partitions.items()
        ]
        asked = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=self._within_s
        )
        try:
            done = asked[group].result()
        except kafka.KafkaException as exc:
            raise self._build_error(group, exc.args[0]) from exc
        refused = next((one.error for one in done.topic_partitions if one.error), None)
        if refused is not None:
            raise self._build_error(group, refused)

    def _build_error(self, group: str, error: Any) -> Error:
        code, words = error.code(), error.str()
        known = confluent().KafkaError
        user = f" {self._connector.login.user!r}" if self._connector.login.user else ""
        servers = self._connector.servers
        what = fix = ""
        if code in (known.GROUP_AUTHORIZATION_FAILED, known.TOPIC_AUTHORIZATION_FAILED):
            what = f"The login{user} is not allowed to change the group {group!r} on {servers}."
            fix = (
                "Grant the login READ on the group and on the topics, or remove mirror from [lag]."
            )
        elif code in (known.UNKNOWN_MEMBER_ID, known.NON_EMPTY_GROUP, known.ILLEGAL_GENERATION):
            what = f"The group {group!r} on {servers} has members, so Headrace does not change it."
            fix = "Set mirror in [lag] to a group name that no consumer uses."
        if what:
            return ConnectorError(what, why=words, fix=fix, slug="kafka-mirror")
        if code in (
            known.NOT_COORDINATOR,
            known.COORDINATOR_NOT_AVAILABLE,
            known.COORDINATOR_LOAD_IN_PROGRESS,
        ):
            return SetupError(
                f"{servers} is not ready for consumer groups.",
                why=words,
                fix="No action is needed: Headrace will retry. A newly started broker needs a few "
                "seconds.",
                slug="kafka-mirror",
            )
        return explain_error(servers, code, words, self._connector)
