"""The broker of the tests of Kafka."""

from brokers.conftest import broker

__all__ = ["broker"]
