"""Kafka's connector without a broker: what it takes, what it refuses, and what Spark is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors import kinds
from headrace.connectors.kafka import broker_client, start_offsets, transactions
from headrace.connectors.kafka.broker_client import COMMITTED, UNCOMMITTED
from headrace.connectors.kafka.connector import Kafka, kafka
from headrace.connectors.kafka.event_hubs import event_hubs
from headrace.connectors.kafka.login import Login
from headrace.connectors.kafka.producer import Producer
from headrace.connectors.kafka.transactions import PlannedWrite
from headrace.errors import ConnectorError

SERVERS = "127.0.0.1:9092"
SINCE = {"startingOffsetsByTimestampStrategy": "latest"}


def refused(**fields: Any) -> ConnectorError:
    with pytest.raises(ConnectorError) as caught:
        kafka(SERVERS, **fields)
    return caught.value


# ---- which topics


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"subscribe": "one"}, {"subscribe": "one"}),
        ({"subscribe": ["one", "two"]}, {"subscribe": "one,two"}),
        ({"subscribe": "one, two"}, {"subscribe": "one,two"}),
        ({"pattern": "logs-.*"}, {"subscribePattern": "logs-.*"}),
        ({"assign": {"one": [0, 1]}}, {"assign": '{"one": [0, 1]}'}),
        ({"assign": '{"one": [2]}'}, {"assign": '{"one": [2]}'}),
    ],
)
def test_topics_are_told_in_one_of_three_ways(
    fields: dict[str, Any], option: dict[str, str]
) -> None:
    found = kafka(SERVERS, **fields)

    assert found._topics() == option
    assert (found.capabilities.is_source, found.capabilities.is_sink) == (True, False)


def test_two_ways_at_once_are_refused_with_what_to_remove() -> None:
    told = refused(subscribe="one", pattern="o.*")

    assert "subscribe and pattern" in told.what
    assert told.fix == "Keep subscribe and remove pattern."


def test_a_connector_reads_or_writes() -> None:
    assert refused(subscribe="one", topic="two").code == "kafka-topics"


@pytest.mark.parametrize("wrong", ["no json", '["one"]', {"one": ["x"]}])
def test_partitions_that_make_no_sense_are_refused(wrong: Any) -> None:
    assert refused(assign=wrong).code == "bad-option"


# ---- where to begin


@pytest.mark.parametrize(
    ("starting", "option"),
    [
        ("earliest", {"startingOffsets": "earliest"}),
        ("latest", {"startingOffsets": "latest"}),
        ({"t": {0: 5, "1": "earliest"}}, {"startingOffsets": '{"t": {"0": 5, "1": -2}}'}),
        ('{"t": {"0": -1}}', {"startingOffsets": '{"t": {"0": -1}}'}),
        ("2026-01-31T09:00:00+01:00", {"startingTimestamp": "1769846400000", **SINCE}),
        (
            {"t": {0: "2026-01-31T08:00:00Z"}},
            {"startingOffsetsByTimestamp": '{"t": {"0": 1769846400000}}', **SINCE},
        ),
    ],
)
def test_every_form_of_a_beginning_is_told_to_spark(starting: Any, option: dict[str, str]) -> None:
    found = kafka(SERVERS, subscribe="t", starting=starting)

    assert start_offsets.to_spark_options("starting", found.starting) == option


@pytest.mark.parametrize(
    ("starting", "word"),
    [
        ("newest", "not a timestamp, earliest or latest"),
        ("2026-01-31T08:00:00", "time zone"),
        ("{not json", "not JSON"),
        ({}, "contains no topic"),
        ({"t": {}}, "needs at least one partition"),
        ({"t": {"x": 1}}, "a partition of 't' must be a number"),
        ({"t": {0: -3}}, "a whole number, 0 or greater"),
        ({"t": {0: 1.5}}, "a whole number, 0 or greater"),
        ({"t": {0: "12"}}, "a number, not text"),
        ({"t": {0: "-7"}}, "a number, not text"),
        ({"t": {0: 1}, "other": {0: 1}}, "the connector does not read 'other'"),
        ({"t": {0: 1, 1: "2026-01-31T08:00:00Z"}}, "mixes offsets and timestamps"),
    ],
)
def test_a_wrong_beginning_is_refused_with_the_forms(starting: Any, word: str) -> None:
    told = refused(subscribe="t", starting=starting)

    assert word in told.what
    assert "earliest" in (told.fix or "")
    assert told.code == "kafka-offsets"


def test_a_beginning_by_partition_is_about_every_topic_that_is_read() -> None:
    told = refused(subscribe=["t", "u"], starting={"t": {0: 1}})

    assert "'u' is missing" in told.what


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("earliest", None),
        ('{"t": {"0": 2, "1": -2}}', None),
        ('{"t": {"0": 2}}', "it lacks t partition 1"),
        (
            '{"t": {"0": 2, "1": 0, "7": 0}}',
            "it contains a partition that does not exist: t partition 7",
        ),
        ('{"t": {"0": 6, "1": 0}}', "t partition 0 has offsets 1 to 5, not 6"),
        ('{"t": {"0": 0, "1": 0}}', "t partition 0 has offsets 1 to 5, not 0"),
    ],
)
def test_a_beginning_is_held_against_what_the_broker_has(text: str, words: str | None) -> None:
    assert start_offsets.find_problem(text, {("t", 0): (1, 5), ("t", 1): (0, 0)}) == words


OFFSETS = st.dictionaries(
    st.text(st.characters(categories=["L", "N"]), min_size=1),
    st.dictionaries(st.integers(0, 99), st.integers(-2, 2**62), min_size=1),
    min_size=1,
)


@given(OFFSETS)
def test_offsets_come_back_as_they_went(offsets: dict[str, dict[int, int]]) -> None:
    text = start_offsets.normalise("starting", offsets)

    assert start_offsets.normalise("starting", text) == text
    told = json.loads(start_offsets.to_spark_options("starting", text)["startingOffsets"])
    assert told == {t: {str(p): o for p, o in found.items()} for t, found in offsets.items()}


# ---- how much at once


@pytest.mark.parametrize("value", ["earliest", {"t": {"0": "earliest"}}, {"t": {"0": -2}}])
def test_a_range_cannot_end_at_the_earliest_record(value: Any) -> None:
    with pytest.raises(ConnectorError, match="nothing would be read"):
        start_offsets.normalise("ending", value)


def test_limits_are_told_to_spark() -> None:
    found = kafka(
        SERVERS, subscribe="t", max_rows=1000, min_rows=10, max_delay="30 seconds",
        min_partitions=8, max_partition_rows=500, group_prefix="team-", poll_timeout="2 minutes",
        offset_retries=5, offset_retry_delay="500 ms",
    )  # fmt: skip

    of_a_batch = {
        "minPartitions": "8",
        "groupIdPrefix": "team-",
        "kafkaConsumer.pollTimeoutMs": "120000",
        "fetchOffset.numRetries": "5",
        "fetchOffset.retryIntervalMs": "500",
    }
    assert found.reading.options(streaming=False) == of_a_batch
    assert found.reading.options(streaming=True) == {
        "maxOffsetsPerTrigger": "1000",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "30000ms",
        "maxRecordsPerPartition": "500",
        **of_a_batch,
    }
    assert kinds.build_connector(found.fields()) == found


@pytest.mark.parametrize(
    "wrong", [{"max_rows": 0}, {"min_rows": -1}, {"max_rows": True}, {"max_delay": "1 minute"},
              {"min_rows": 10, "max_rows": 5}, {"min_partitions": 0}, {"offset_retries": "3"},
              {"max_partition_rows": 1.5}]
)  # fmt: skip
def test_limits_that_do_nothing_or_nonsense_are_refused(wrong: dict[str, Any]) -> None:
    assert refused(subscribe="t", **wrong).code == "bad-option"


# ---- settings that break a query

READING = ["group.id", "auto.offset.reset", "key.deserializer", "value.deserializer",
           "enable.auto.commit", "interceptor.classes"]  # fmt: skip
WRITING = ["key.serializer", "value.serializer", "group.id", "transactional.id"]


@pytest.mark.parametrize("name", [*READING, *(f"kafka.{one}" for one in READING)])
def test_what_breaks_reading_is_refused_with_reason_and_replacement(name: str) -> None:
    told = refused(subscribe="t", options={name: "x"})

    assert name in told.what
    assert told.why
    assert (told.fix or "").startswith(("Use ", "Remove "))
    assert told.code == "kafka-option"


@pytest.mark.parametrize("name", [f"kafka.{one}" for one in WRITING])
def test_what_breaks_writing_is_refused_with_reason_and_replacement(name: str) -> None:
    told = refused(topic="t", options={name: "x"})

    assert name in told.what
    assert told.why
    assert (told.fix or "").startswith(("Use ", "Remove "))
    assert told.code == "kafka-option"


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("minPartitions", "min_partitions"),
        ("MAXRECORDSPERPARTITION", "max_partition_rows"),
        ("groupIdPrefix", "group_prefix"),
        ("kafkaConsumer.pollTimeoutMs", "poll_timeout"),
        ("fetchOffset.numRetries", "offset_retries"),
        ("fetchOffset.retryIntervalMs", "offset_retry_delay"),
        ("startingOffsetsByTimestampStrategy", "starting"),
        ("includeHeaders", "headers"),
    ],
)
def test_an_option_of_sparks_connector_has_a_field(option: str, field: str) -> None:
    assert refused(subscribe="t", options={option: "1"}).fix == f"Use the field instead: {field}=…"


def test_a_misspelt_option_is_told_with_the_field_that_was_meant() -> None:
    told = refused(subscribe="t", options={"minPartition": "9"})

    assert "Unknown option 'minPartition'" in told.what
    assert told.fix == "Did you mean min_partitions=…?"
    lost = refused(subscribe="t", options={"failOnDataLos": "true"})
    assert lost.fix == "Did you mean failOnDataLoss?"
    assert refused(subscribe="t", options={"color": "red"}).fix == "Remove it."


def test_an_option_of_event_hubs_is_told_with_its_own_fields() -> None:
    def told(option: str) -> str | None:
        with pytest.raises(ConnectorError) as caught:
            event_hubs("${env:HUBS}", options={option: "1"})
        return caught.value.fix

    assert told("groupIdPrefix") == "Use the field instead: consumer_group=…"
    assert told("minPartitions") == "Use the field instead: min_partitions=…"
    assert told("subscribe") == "Use the field instead: hub=…"


def test_an_event_hub_is_read_with_the_same_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBS", "Endpoint=sb://h/;SharedAccessKeyName=a;SharedAccessKey=b")
    found = event_hubs(
        "${env:HUBS}", hub="one", consumer_group="mine", min_partitions=4, poll_timeout="1 minute"
    )

    assert found.as_kafka(is_source=True).reading.options(streaming=False) == {
        "minPartitions": "4", "groupIdPrefix": "mine", "kafkaConsumer.pollTimeoutMs": "60000",
    }  # fmt: skip
    assert kinds.build_connector(found.fields()) == found
    with pytest.raises(ConnectorError, match="max_rows: 0"):
        event_hubs("${env:HUBS}", max_rows=0)


def test_losing_records_for_good_is_refused_with_the_one_time_way() -> None:
    told = refused(subscribe="t", options={"failOnDataLoss": "false"})

    assert "--accept-gap" in (told.fix or "")


def test_a_setting_of_the_client_without_its_prefix_is_told() -> None:
    told = refused(subscribe="t", options={"fetch.min.bytes": "1"})

    assert told.fix == 'Write "kafka.fetch.min.bytes".'


def test_the_servers_have_one_place() -> None:
    assert refused(subscribe="t", options={"kafka.bootstrap.servers": "x"}).code == "kafka-option"


def test_other_settings_pass_through() -> None:
    given = {"kafka.fetch.min.bytes": 5, "failOnDataLoss": True}
    found = kafka(SERVERS, subscribe="t", options=given)

    assert found.options == {"kafka.fetch.min.bytes": "5", "failOnDataLoss": "true"}


# ---- columns of a record


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"load": "double"}, "needs a value column"),
        ({"value": "int"}, "value must be string or binary"),
        ({"value": "string", "key": "int"}, "key must be"),
        ({"value": "string", "partition": "string"}, "partition must be int"),
        ({"value": "string", "load": "double"}, "no field load"),
    ],
)
def test_rows_that_are_no_records_are_refused_with_the_columns_found(
    columns: dict[str, str], word: str
) -> None:
    told = kafka(SERVERS, topic="t").sink_problem(columns)

    assert word in str(told)


def test_a_topic_has_to_come_from_somewhere() -> None:
    sink = kafka(SERVERS)

    assert "and the query has no topic column" in str(sink.sink_problem({"value": "string"}))
    assert sink.sink_problem({"value": "string", "topic": "string"}) is None


def test_a_record_may_have_all_its_parts() -> None:
    columns = {
        "key": "binary", "value": "string", "topic": "string", "partition": "int",
        "headers": "array<struct<key:string,value:binary>>",
    }  # fmt: skip
    assert kafka(SERVERS, topic="t").sink_problem(columns) is None


# ---- logging in


def test_a_plain_connection_needs_no_setting_more() -> None:
    assert Login().for_java() == {}
    assert Login().for_librdkafka() == {}


def test_a_password_is_resolved_for_both_clients_and_kept_as_its_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", 'a"b\\c')
    found = kafka(SERVERS, subscribe="t", tls=True, user="u", password="${env:SECRET}")  # noqa: S106

    java = found._client()
    assert java["kafka.security.protocol"] == "SASL_SSL"
    assert java["kafka.sasl.jaas.config"].endswith('username="u" password="a\\"b\\\\c";')
    assert found.client()["sasl.password"] == 'a"b\\c'
    assert found.fields()["password"] == "${env:SECRET}"  # noqa: S105


def test_mutual_tls_needs_certificate_and_key(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    (tmp_path / "c.pem").write_text("CERT")
    (tmp_path / "k.pem").write_text("KEY")

    assert refused(subscribe="t", certificate="c.pem").code == "kafka-login"
    made = kafka(SERVERS, subscribe="t", ca="ca.pem", certificate="c.pem", key="k.pem")
    found = made.resolve_paths(tmp_path)
    assert found._client()["kafka.ssl.keystore.key"] == "KEY"
    assert found.client()["ssl.key.location"] == str(tmp_path / "k.pem")
    assert found.client()["security.protocol"] == "SSL"


def test_a_pem_file_that_is_not_there_is_told() -> None:
    for fields in ({"ca": "/no/f.pem"}, {"certificate": "/no/f.pem", "key": "/no/k.pem"}):
        found = kafka(SERVERS, subscribe="t", **fields)
        for ask in (found._client, found.client):
            with pytest.raises(ConnectorError, match=r"/no/f\.pem cannot be read"):
                ask()


def test_scram_is_a_mechanism_and_a_slip_of_the_pen_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("P", "secret")
    good = kafka(SERVERS, subscribe="t", user="u", password="${env:P}", mechanism="SCRAM-SHA-512")  # noqa: S106
    assert "scram.ScramLoginModule" in good._client()["kafka.sasl.jaas.config"]
    told = refused(subscribe="t", user="u", password="${env:P}", mechanism="SCRAM-SHA512")  # noqa: S106
    assert told.fix == 'Write mechanism="SCRAM-SHA-512".'


# ---- between processes


def test_fields_make_the_same_connector_again() -> None:
    found = kafka(
        [SERVERS, "other:9092"], assign={"t": [1]}, starting={"t": {1: 7}}, max_rows=5, min_rows=2,
        max_delay=1.5, headers=True, tls=True, user="u", password="${env:X}",  # noqa: S106
        options={"kafka.client.id": "me"},
    )  # fmt: skip

    assert kinds.build_connector(json.loads(json.dumps(found.fields()))) == found
    assert isinstance(found, Kafka)


def test_a_secret_that_is_written_out_is_refused_and_not_repeated() -> None:
    told = refused(subscribe="t", user="u", password="hunter2")  # noqa: S106

    assert told.code == "plain-secret"
    assert "${env:PASSWORD}" in str(told)
    assert "hunter2" not in str(told)
    with pytest.raises(ConnectorError, match="connection_string contains a secret in plain text"):
        event_hubs("Endpoint=sb://n/;SharedAccessKeyName=a;SharedAccessKey=b")


@pytest.mark.parametrize(
    ("name", "field"),
    [("startingOffsets", "starting"), ("STARTINGOFFSETS", "starting"), ("subscribe", "subscribe"),
     ("maxOffsetsPerTrigger", "max_rows"), ("kafka.bootstrap.servers", "servers")],
)  # fmt: skip
def test_an_option_that_has_a_field_is_refused_with_its_name(name: str, field: str) -> None:
    told = refused(subscribe="t", options={name: "x"})

    assert told.fix == f"Use the field instead: {field}=…"


def test_spark_takes_options_in_any_case_and_so_do_refusals() -> None:
    assert refused(subscribe="t", options={"failondataloss": "False"}).code == "kafka-option"


def test_a_sink_whose_rows_name_the_topic_is_a_sink_all_the_same() -> None:
    assert refused(options={"kafka.transactional.id": "x"}).code == "kafka-option"
    assert refused(options={"kafka.enable.idempotence": "false"}).code == "kafka-option"


def test_secrets_among_the_options_are_by_reference_too() -> None:
    name = "kafka.ssl.truststore.password"
    told = refused(subscribe="t", options={name: "hunter2"})

    assert "hunter2" not in str(told)
    assert kafka(SERVERS, subscribe="t", options={name: "${env:X}"}).options[name] == "${env:X}"


@pytest.mark.parametrize(
    "starting",
    [
        {"offset": "4096", "seqNo": -1, "enqueuedTime": None, "isInclusive": True},
        '{"offset": "4096", "seqNo": -1, "enqueuedTime": null, "isInclusive": true}',
        "4096",
        "@latest",
    ],
)
def test_a_byte_offset_of_event_hubs_is_refused_with_what_there_is(starting: Any) -> None:
    with pytest.raises(ConnectorError) as caught:
        event_hubs("${env:HUBS}", starting=starting)

    assert caught.value.code == "event-hubs-offset"
    assert "sequence number" in str(caught.value.why)
    assert "Set starting to a time" in str(caught.value.fix)


def test_a_limit_on_the_rows_of_a_batch_is_known_of_event_hubs_too() -> None:
    assert event_hubs("${env:HUBS}", max_rows=10).capabilities.has_batch_limit
    assert not event_hubs("${env:HUBS}").capabilities.has_batch_limit


def test_a_gap_can_be_accepted_on_event_hubs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    string = "Endpoint=sb://n/;SharedAccessKeyName=a;SharedAccessKey=b;EntityPath=h"
    monkeypatch.setenv("HUBS", string)

    found = event_hubs("${env:HUBS}").accepting_gap().as_kafka(is_source=True)

    assert found.options["failOnDataLoss"] == "false"
    assert "failOnDataLoss" not in event_hubs("${env:HUBS}").as_kafka(is_source=True).options


# ---- exactly once


def test_exactly_once_is_a_sinks() -> None:
    assert refused(subscribe="t", exactly_once=True).code == "bad-option"
    found = kafka(SERVERS, topic="t", exactly_once=True)
    assert found.capabilities.delivery == "exactly-once"
    assert not found.capabilities.can_run_in_real_time
    assert kinds.build_connector(found.fields()) == found


@pytest.mark.parametrize(
    ("fields", "isolation"),
    [
        ({"subscribe": "t"}, UNCOMMITTED),
        ({"subscribe": "t", "options": {"kafka.isolation.level": "read_committed"}}, COMMITTED),
        ({"subscribe": "t", "options": {"Kafka.Isolation.Level": "read_committed"}}, COMMITTED),
        ({"topic": "t"}, UNCOMMITTED),
        ({"topic": "t", "exactly_once": True}, COMMITTED),
    ],
)
def test_a_broker_is_asked_for_the_end_that_spark_reads_to(
    fields: dict[str, Any], isolation: str
) -> None:
    assert broker_client.isolation_level(kafka(SERVERS, **fields)) == isolation


@pytest.mark.parametrize(
    ("last", "batch", "is_new"),
    [
        (None, PlannedWrite(0), True),
        (None, PlannedWrite(9, "a"), True),
        (PlannedWrite(4, "a"), PlannedWrite(5, "b"), True),
        (PlannedWrite(4, "a"), PlannedWrite(4, "a"), False),
        (PlannedWrite(4), PlannedWrite(4, "a"), False),  # written before there were marks
        (PlannedWrite(4, "a"), PlannedWrite(4), False),  # the checkpoint cannot be read from here
    ],
)
def test_only_the_batch_that_was_committed_last_is_left_out(
    last: PlannedWrite | None, batch: PlannedWrite, is_new: bool
) -> None:
    assert transactions.is_new(last, batch) is is_new


@pytest.mark.parametrize("batch", [PlannedWrite(3), PlannedWrite(3, "a"), PlannedWrite(4, "b")])
def test_a_checkpoint_behind_the_topic_is_refused(batch: PlannedWrite) -> None:
    with pytest.raises(ConnectorError) as caught:
        transactions.is_new(PlannedWrite(4, "a"), batch)

    assert caught.value.code == "sink-is-ahead"


def test_a_batch_is_known_by_its_file_in_the_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets" / "7").write_text('v1\n{}\n{"t":{"0":5}}')
    first = transactions.read_planned_write(str(folder), 7)
    (folder / "offsets" / "7").write_text('v1\n{}\n{"t":{"0":6}}')

    assert first.mark
    assert transactions.read_planned_write(f"file:{folder}", 7) != first
    assert transactions.read_planned_write(f"file:{folder}", 7) == transactions.read_planned_write(
        str(folder), 7
    )
    for elsewhere in (None, "s3a://bucket/checkpoint", str(tmp_path / "none")):
        assert transactions.read_planned_write(elsewhere, 7) == PlannedWrite(7)


@pytest.mark.parametrize("batch", [PlannedWrite(7), PlannedWrite(7, "0123456789abcdef")])
def test_the_mark_beside_the_position_comes_back(batch: PlannedWrite) -> None:
    assert PlannedWrite.from_words(7, batch.in_words()) == batch
    assert (
        PlannedWrite.from_words(7, None) == PlannedWrite.from_words(7, "by hand") == PlannedWrite(7)
    )


def test_settings_of_the_java_client_have_other_names_in_librdkafka() -> None:
    options = {
        "kafka.max.request.size": "9", "kafka.buffer.memory": "2048", "kafka.linger.ms": "7",
        "kafka.transaction.timeout.ms": "60000", "includeHeaders": "true",
    }  # fmt: skip

    found = transactions.settings({"bootstrap.servers": SERVERS}, options, "headrace-x")

    assert found["message.max.bytes"] == "9"
    assert found["queue.buffering.max.kbytes"] == 2
    assert (found["linger.ms"], found["transaction.timeout.ms"]) == ("7", "60000")
    assert found["transactional.id"] == "headrace-x"
    assert "includeHeaders" not in found


def test_both_clients_of_exactly_once_come_in_alike() -> None:
    """The consumer asks which batch was written last; without the way in, no run could begin."""
    options = {
        "kafka.security.protocol": "SSL", "kafka.socket.timeout.ms": "9000",
        "kafka.max.request.size": "3000000", "kafka.linger.ms": "7", "kafka.group.id": "x",
        "kafka.isolation.level": "read_uncommitted", "kafka.transaction.timeout.ms": "60000",
    }  # fmt: skip

    found = transactions.reader_settings({"bootstrap.servers": SERVERS}, options, "headrace-x")

    assert (found["security.protocol"], found["socket.timeout.ms"]) == ("SSL", "9000")
    assert (found["group.id"], found["isolation.level"]) == ("headrace-x", "read_committed")
    Consumer({**found, "security.protocol": "PLAINTEXT"}, logger=broker_client.QUIET).close()


def test_the_relays_producer_takes_options_and_refuses_one_that_it_does_not_know() -> None:
    own = {"kafka.compression.type": "lz4", "kafka.max.request.size": "3000000"}
    Producer(kafka("127.0.0.1:1", topic="t", options=own), 1.0).close()

    with pytest.raises(ConnectorError) as caught:
        Producer(kafka("127.0.0.1:1", topic="t", options={"kafka.no.such": "1"}), 1.0)

    assert caught.value.code == "kafka-option"
    assert 'No such configuration property: "no.such"' in caught.value.what
