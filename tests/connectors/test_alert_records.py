"""Records of the alerts topic: what `opened` makes of them, and what it refuses."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from headrace import config
from headrace.config import Settings
from headrace.connectors import alert_topic
from headrace.connectors.alert_rows import TEXT_CHARS_MAX
from headrace.connectors.kafka.topic_follower import Record
from headrace.errors import ConnectorError
from headrace.model.alerts import TopicRow

HOME = "h"


def record(
    row: dict[str, Any], *, resolved: bool = False, at: str | None = "at", **about: Any
) -> bytes:
    shape = {"key": ["c"], "title": "Cluster {c}: load {load:.1f}", "severity": "critical",
             "resolve_after_s": None, "at": at}  # fmt: skip
    owner = {"home": HOME, "pipeline": "metrics", "query": "hot"}
    said = json.dumps({"owner": owner, "shape": shape, **about})
    return json.dumps({"about": said, "resolved": resolved, "row": row}).encode()


def read(value: bytes, at: float = 1.0, home: str = HOME) -> TopicRow | None:
    return alert_topic.parse_record(Record(2, 7, at, value), home)


ROW = {"c": 4, "load": 99.25, "at": "2026-11-16T10:00:01.500Z"}


def test_a_record_says_all_about_its_row() -> None:
    found = read(record(ROW), 1000.0)

    assert found is not None
    assert (found.pipeline, found.query) == ("metrics", "hot")
    assert (found.row.key, found.row.title) == (("4",), "Cluster 4: load 99.2")
    assert found.row.at == 1794823201.5
    assert found.row.told_at == 1000.0
    assert (found.partition, found.offset) == (2, 7)
    assert not found.row.resolved


def test_a_row_that_was_sent_twice_is_known_by_its_moment() -> None:
    def twin(value: bytes) -> bytes | None:
        found = read(value)
        assert found is not None
        return found.twin

    assert twin(record(ROW)) == twin(record(ROW)) is not None
    assert twin(record(ROW)) != twin(record(ROW, resolved=True))
    retitled = {"key": ["c"], "title": "new", "severity": "info", "at": "at"}
    assert twin(record(ROW)) == twin(record(ROW, shape=retitled)), "also after a deploy"
    assert twin(record(ROW, at=None)) is None


def test_of_a_nested_value_that_was_too_large_the_row_has_its_beginning() -> None:
    body = json.loads(record({**ROW, "tags": None, "few": [1]}))
    body["beginnings"] = {"tags": "[" + "1," * 500, "few": None}

    found = read(json.dumps(body).encode())

    assert found is not None
    assert found.row.data["few"] == [1]
    assert found.row.data["tags"] == ("[" + "1," * 500)[: TEXT_CHARS_MAX - 1] + "…"


def test_rows_of_another_project_are_left_to_it() -> None:
    assert read(record(ROW), home="other") is None


def test_a_moment_without_a_zone_is_utc_wherever_the_relay_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = read(record({**ROW, "at": "2026-11-16T10:00:01.500000"}))
    finally:
        monkeypatch.undo()
        time.tzset()

    assert found is not None
    assert found.row.at == 1794823201.5
    assert found.row.data["at"] == "2026-11-16 10:00:01.500000", "as a batch shows it"
    assert found.twin is not None


@pytest.mark.parametrize(
    "at", ["yesterday", None, 7, "9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+01:00"]
)
def test_an_odd_moment_costs_the_moment_not_the_row(at: object) -> None:
    found = read(record({**ROW, "at": at}), 1000.0)

    assert found is not None
    assert found.row.at == 1000.0
    assert found.twin is None, "without a moment, the same again is another row"


@pytest.mark.parametrize(
    "value",
    [
        b"", b"no json", b"[]", b"{}", b'{"about": "{}"}', b'{"about": 1}', b"\xff\xfe",
        record({"load": 1.0}),  # no key
        record(ROW, shape={"key": ["c"], "title": "t", "severity": "loud"}),
        record(ROW, shape={"key": ["c"], "title": "t", "colour": "red"}),
        record(ROW, shape={"key": ["c"], "title": "half a \ud800 pair", "severity": "info"}),
        record(ROW, owner={"home": HOME, "pipeline": "\ud800", "query": "q"}),
        record(ROW, owner={"home": HOME, "pipeline": 7, "query": "q"}),
        record(ROW, shape={"key": ["c"], "title": "t", "severity": "info",
                           "resolve_after_s": 10**400}),
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_row_is_refused_with_a_reason(value: bytes) -> None:
    with pytest.raises(ValueError) as refused:
        read(value)

    assert str(refused.value)


def settings(folder: Path, table: str) -> Settings:
    (folder / "headrace.toml").write_text(table)
    return config.load(folder)


def test_a_bad_table_of_settings_says_where_it_is_and_what_was_meant(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as unknown:
        alert_topic.topic_of(settings(tmp_path, '[alerts]\nserver = "x:1"'))
    with pytest.raises(ConnectorError) as both:
        alert_topic.topic_of(settings(tmp_path, '[alerts]\nservers = "x:1"\nsubscribe = "a"'))

    assert "'servers'" in str(unknown.value.fix)
    assert unknown.value.where == both.value.where == "headrace.toml:1"


def test_rows_that_travel_one_by_one_are_no_transaction(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as refused:
        alert_topic.topic_of(settings(tmp_path, '[alerts]\nservers = "x:1"\nexactly_once = true'))

    assert (refused.value.code, refused.value.where) == ("bad-option", "headrace.toml:1")
    assert refused.value.fix == "Remove exactly_once."


def test_the_topic_has_a_name_and_certificates_are_found_from_the_project(tmp_path: Path) -> None:
    made = alert_topic.topic_of(settings(tmp_path, '[alerts]\nservers = "x:1"\nca = "ca.pem"'))

    assert made is not None
    assert made.topic == "headraceAlerts"
    assert made.login.ca == str(tmp_path / "ca.pem")
    assert alert_topic.topic_of(settings(tmp_path, "")) is None
