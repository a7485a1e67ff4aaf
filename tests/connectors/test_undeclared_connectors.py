"""Sources and sinks recognised from what Spark reports about them."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from headrace.connectors import undeclared_connectors
from headrace.connectors.connector import Connector

HERE = Path("/project")


@pytest.mark.parametrize(
    ("kind", "options", "name", "connector"),
    [
        ("text", {"path": "in"}, "text:in", hr.text("/project/in")),
        ("parquet", {"path": "/elsewhere/x"}, "parquet:/elsewhere/x", hr.parquet("/elsewhere/x")),
        ("binaryFile", {"path": "in"}, "binary:in", hr.binary("/project/in")),
        ("json", {"path": "s3a://b/in"}, "json:s3a://b/in", hr.json("s3a://b/in")),
        ("socket", {"host": "h", "port": "9"}, "socket:h:9", hr.socket("h", 9)),
        ("rate", {}, "rate", hr.rate()),
        ("delta", {"path": "in"}, "delta", None),
        (
            "kafka",
            {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders, returns"},
            "kafka:orders, returns",
            hr.kafka("b:9092", subscribe=["orders", "returns"]),
        ),
        (
            "kafka",
            {"kafka.bootstrap.servers": "b:9092", "assign": '{"orders": [0]}'},
            'kafka:{"orders": [0]}',
            hr.kafka("b:9092", assign={"orders": [0]}),
        ),
    ],
)
def test_a_source_is_what_its_options_say(
    kind: str, options: dict[str, str], name: str, connector: Connector | None
) -> None:
    assert undeclared_connectors.identify_source(kind, options.get, HERE) == (name, connector)


def test_a_login_in_the_code_stays_there() -> None:
    options = {
        "kafka.bootstrap.servers": "b:9092",
        "subscribe": "orders",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": 'password="hunter2"',
    }
    _, found = undeclared_connectors.identify_source("kafka", options.get, HERE)

    assert found is not None
    assert found.capabilities.is_replayable
    assert found.fields() == {"kind": "kafka"}


def test_a_file_sink_of_an_unknown_format_is_still_exactly_once() -> None:
    known, unknown = (
        undeclared_connectors.file_sink("/out", name) for name in ("parquet", "lines")
    )

    assert known == hr.parquet("/out")
    assert (unknown.kind, unknown.capabilities.delivery) == ("lines", "exactly-once")


def test_an_unknown_sink_has_the_name_of_its_class() -> None:
    found = undeclared_connectors.identify_sink("SpecialSink")

    assert (found.kind, found.capabilities.delivery) == ("SpecialSink", "at-least-once")
    assert undeclared_connectors.identify_sink("MemorySink") == hr.memory()
