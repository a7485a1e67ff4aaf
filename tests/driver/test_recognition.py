"""Sources by the options that Spark's plan has of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from headrace.connectors.connector import Connector
from headrace.driver import recognition

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
    found = recognition._recognised(kind, options.get, HERE)
    assert (found.name, found.connector) == (name, connector)


def test_a_login_in_the_code_stays_there() -> None:
    options = {
        "kafka.bootstrap.servers": "b:9092",
        "subscribe": "orders",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": 'password="hunter2"',
    }
    found = recognition._recognised("kafka", options.get, HERE).connector
    assert found is not None
    assert found.is_replayable
    assert found.fields() == {"kind": "kafka"}
