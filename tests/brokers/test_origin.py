"""The recipe of guides/kafka.md: each record once, from a topic that has some twice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headrace as hr
from brokers.cluster import Cluster
from brokers.conftest import everything, made, sent
from headrace.connectors.kafka.connector import kafka

pytestmark = [pytest.mark.spark, pytest.mark.e2e]
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "kafka.md"
MARK = "<!-- executed by tests/brokers/test_origin.py -->"


def recipe() -> dict[str, Any]:
    """The functions as the guide has them."""
    (code,) = re.findall(MARK + r"\n```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    found: dict[str, Any] = {"hr": hr, "F": F}
    exec(compile(code, str(GUIDE), "exec"), found)  # noqa: S102
    return found


def run(writer: Any, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(180)


def test_a_batch_that_was_sent_twice_is_read_once(
    spark: Any, broker: Cluster, topic: str, tmp_path: Path
) -> None:
    functions, payments = recipe(), made(broker, 2)
    values = ["same", "same", *(str(n) for n in range(20))]  # equal rows are two, not one twice
    sent(broker, topic, *values)
    sink = kafka(broker.servers(), topic=payments)

    def send() -> None:
        orders = kafka(broker.servers(), subscribe=topic, starting="earliest").read(spark)
        writer = functions["sent"](orders).writeStream
        run(sink.attach(writer, query="sent", mode="append", checkpoint=None), tmp_path / "sent")

    send()
    # As after a kill between the last record and the checkpoint.
    (tmp_path / "sent" / "commits" / "0").unlink()
    (tmp_path / "sent" / "commits" / ".0.crc").unlink(missing_ok=True)
    send()
    there = Counter(m.value().decode() for m in everything(broker, payments))
    assert there == Counter(values * 2), "the topic has every record twice"

    read = kafka(broker.servers(), subscribe=payments, starting="earliest", headers=True)
    once = functions["each_once"](read.read(spark)).selectExpr("CAST(value AS STRING) AS value")
    run(once.writeStream.format("memory").queryName("once"), tmp_path / "read")

    assert Counter(row["value"] for row in spark.table("once").collect()) == Counter(values)
