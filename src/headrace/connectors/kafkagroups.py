"""Moving a consumer group to where a query stands, by our own client (confluent-kafka): Kafka's
own tools then show it. Used by the relay.

Beside `kafkabroker`, which only reads. Invariant: no group is joined, and none with members moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.connectors.kafka import Kafka
from headrace.connectors.kafkabroker import begun
from headrace.connectors.kafkafailures import confluent, explained
from headrace.errors import ConnectorError, Error, SetupError


class Groups:
    """A connection to one cluster by one login."""

    def __init__(self, connector: Kafka, within_s: float) -> None:
        confluent()  # where it is not installed, this says so
        from confluent_kafka.admin import AdminClient

        self._connector = connector
        self._within_s = within_s
        self._admin = begun(AdminClient, connector, {})

    def move(self, group: str, positions: Mapping[str, Mapping[int, int]]) -> None:
        """`positions`: of each topic and partition the record that comes next."""
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
            raise self._failed(group, exc.args[0]) from exc
        refused = next((one.error for one in done.topic_partitions if one.error), None)
        if refused is not None:
            raise self._failed(group, refused)

    def _failed(self, group: str, error: Any) -> Error:
        code, words = error.code(), error.str()
        known = confluent().KafkaError
        user = f" as {self._connector.user!r}" if self._connector.user else ""
        if code in (known.GROUP_AUTHORIZATION_FAILED, known.TOPIC_AUTHORIZATION_FAILED):
            return ConnectorError(
                f"The login{user} may not move the group {group!r} on {self._connector.servers}.",
                why=words,
                fix="Grant it READ on the group and READ on the topics, or remove [lag] mirror.",
                slug="kafka-mirror",
            )
        if code in (known.UNKNOWN_MEMBER_ID, known.NON_EMPTY_GROUP, known.ILLEGAL_GENERATION):
            return ConnectorError(
                f"The group {group!r} on {self._connector.servers} has members: it is not moved.",
                why=words,
                fix="Choose a name for [lag] mirror that no consumer uses.",
                slug="kafka-mirror",
            )
        if code in (
            known.NOT_COORDINATOR,
            known.COORDINATOR_NOT_AVAILABLE,
            known.COORDINATOR_LOAD_IN_PROGRESS,
        ):
            return SetupError(
                f"{self._connector.servers} is not ready to keep groups.",
                why=words,
                fix="It is tried again; a broker that has just started needs some seconds.",
                slug="kafka-mirror",
            )
        return explained(self._connector.servers, code, words, self._connector)
