"""What a sample of records says about the fields of a schema, and where the sample comes from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.driver.count_plan import CountPlan
from headrace.driver.field_counts import (
    UNKNOWN_NAMES_MAX,
    Field,
    FieldSample,
    count_csv,
    count_json,
    count_parse_json,
)
from headrace.driver.parse_points import ParsePoint
from headrace.driver.quality_counts import AFTER_FAILURE_S, LIST_S, BatchCounts
from headrace.driver.record_ages import RecordAges
from headrace.driver.record_sample import BYTES_MAX, RECORDS_MAX, sample_batch
from headrace.model.progress import from_spark

FIELDS = (Field("id", "bigint", is_required=True), Field("temp", "double"), Field("at", "date"))


def lines(*records: object) -> list[bytes | None]:
    return [json.dumps(one).encode() for one in records]


def told(sample: FieldSample) -> tuple[int, dict[str, int], dict[str, int]]:
    return sample.records, dict(sample.nulls), dict(sample.unknown)


def test_what_is_absent_or_null_is_null_and_what_no_schema_has_is_unknown() -> None:
    given = lines(
        {"id": 1, "temp": 1, "at": "2026-01-01"},
        {"id": 2, "temp": None, "at": "2026-01-01", "temperature": 3},
        {"id": 3, "temperature": 3},
    )

    assert told(count_parse_json(given, FIELDS)) == (3, {"temp": 2, "at": 1}, {"temperature": 2})


@pytest.mark.parametrize(
    "record", [b"{", b"[]", b"3", b"", None, b'{"id": null}', b'{"id": "x"}', b"[" * 100_000]
)
def test_what_goes_to_the_quarantine_is_not_counted(record: bytes | None) -> None:
    assert told(count_parse_json([record], FIELDS)) == (0, {}, {})


def test_a_json_source_makes_null_of_what_does_not_fit() -> None:
    given = [*lines({"id": "x", "temp": 2, "at": "2026-01-01"}), b"{broken", b"", b"[1]"]

    assert told(count_json(given, FIELDS)) == (2, {"id": 2, "temp": 1, "at": 1}, {})


def test_a_csv_source_goes_by_the_place_of_a_column() -> None:
    given: list[bytes | None] = [b"1;2.5;2026-01-01", b"x;-;", b'"2"; ;soon', b"3", b""]

    found = count_csv(given, FIELDS, {"sep": ";", "nullvalue": "-"})

    assert told(found) == (4, {"id": 1, "temp": 3, "at": 3}, {})


def test_names_that_could_hide_or_never_end_are_left_out() -> None:
    record = {"id": 1, "x" * 65: 1, "a\nb": 1, "`": 1, " ": 1, "good name": 1}

    assert count_parse_json(lines(record), FIELDS).unknown == {"good name": 1}


def test_keys_that_are_identifiers_do_not_pile_up() -> None:
    known: set[str] = set()
    found: set[str] = set()
    for number in range(100):
        found |= (
            count_parse_json(lines({"id": 1, f"key{number}": 1}), FIELDS).counts("v", known).keys()
        )

    assert len([key for key in found if key.startswith("unknown.")]) == UNKNOWN_NAMES_MAX


class Source:
    """A folder with files, and the checkpoint of a query that took them."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.folder, self.entry = folder, -1
        self.log = folder / "checkpoint" / "sources" / "0"
        self.log.mkdir(parents=True)
        (folder / "in coming").mkdir()
        self.parsed = ParsePoint(
            *("logs", "hr.json", "x.py:1", str(folder / "in coming"), "json", FIELDS), options
        )

    def take(self, name: str, content: bytes) -> dict[str, Any]:
        """-> the progress of the batch that read it"""
        (self.folder / "in coming" / name).write_bytes(content)
        path = (self.folder / "in coming" / name).as_uri()
        before, self.entry = self.entry, self.entry + 1
        body = {"path": path, "timestamp": 1, "batchId": self.entry}
        text = json.dumps(body, separators=(",", ":"))
        (self.log / str(self.entry)).write_text(f"v1\n{text}")
        source = {
            "description": f"FileStreamSource[file:{self.folder}/in coming]",
            "startOffset": {"logOffset": before} if before >= 0 else None,
            "endOffset": {"logOffset": self.entry},
        }
        return {"numInputRows": 1, "batchId": self.entry, "sources": [source]}

    def sample(self, progress: dict[str, Any]) -> list[bytes | None]:
        return sample_batch(
            self.parsed, from_spark(progress), self.folder / "checkpoint", RecordAges()
        )


def test_records_come_from_the_files_of_the_batch_and_from_no_other(tmp_path: Path) -> None:
    source = Source(tmp_path)
    first = source.take("a.json", b"1\n2\n")
    second = source.take("b.json", b"3\n4\n")

    assert sorted(map(str, source.sample(first))) == ["b'1'", "b'2'"]
    assert sorted(map(str, source.sample(second))) == ["b'3'", "b'4'"]


def test_of_a_large_file_whole_lines_are_read_and_not_many(tmp_path: Path) -> None:
    source = Source(tmp_path)
    line = json.dumps({"id": 1, "said": "x" * 100}).encode()
    progress = source.take("a.json", (line + b"\n") * (10 * BYTES_MAX // len(line)))

    assert source.sample(progress) == [line] * RECORDS_MAX


def test_a_header_is_no_record_and_packed_files_are_opened(tmp_path: Path) -> None:
    source = Source(tmp_path, header="true")
    progress = source.take("a.csv.gz", gzip.compress(b"id,temp,at\n1,2,3\n"))

    assert source.sample(progress) == [b"1,2,3"]


def test_a_file_that_is_gone_says_nothing(tmp_path: Path) -> None:
    source = Source(tmp_path)
    progress = source.take("a.json.gz", b"not packed")
    (tmp_path / "in coming" / "a.json.gz").rename(tmp_path / "elsewhere")

    assert source.sample(progress) == []
    assert source.sample({**progress, "sources": "strange"}) == []


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.01  # what anything takes
        return self.now


def test_counting_takes_a_small_part_of_the_time(tmp_path: Path) -> None:
    source, clock = Source(tmp_path), Clock()
    counts = BatchCounts(RecordAges(), clock=clock)
    counts.note("kept", CountPlan((source.parsed,)))
    progress = source.take("a.json", b'{"id": 1}\n')
    checkpoint = tmp_path / "checkpoint"
    began, batches, counted = clock.now, 5_000, 0
    for _ in range(batches):
        clock.now += 0.1
        counted += bool(counts.count_batch("kept", from_spark(progress), checkpoint, None))

    assert 0 < counted * 0.03 < 0.01 * (clock.now - began)


def test_all_fields_are_named_first_and_then_those_with_nulls(tmp_path: Path) -> None:
    source, clock = Source(tmp_path), Clock()
    counts = BatchCounts(RecordAges(), rest=0, clock=clock)
    counts.note("kept", CountPlan((source.parsed,)))
    progress = source.take("a.json", b'{"id": 1, "temp": null, "at": "2026-01-01"}\n')

    def names() -> set[str]:
        return set(counts.count_batch("kept", from_spark(progress), tmp_path / "checkpoint", None))

    assert names() == {"parsed.logs", "null.logs.id", "null.logs.temp", "null.logs.at"}
    assert names() == {"parsed.logs", "null.logs.temp"}
    clock.now += LIST_S
    assert len(names()) == 4


def test_what_cannot_be_counted_costs_no_event_and_is_not_tried_in_every_batch() -> None:
    clock = Clock()
    counts = BatchCounts(RecordAges(), rest=0, clock=clock)

    class Gone:
        asked = 0

        def streamingQuery(self) -> object:  # noqa: N802 (Spark's name)
            Gone.asked += 1
            raise ConnectionError("the JVM is gone")

    from headrace.driver.lookup_metrics import Lookup

    counts.note("kept", CountPlan(lookups=(Lookup("customers", "x.py:1", frozenset({1})),)))
    progress = {"numInputRows": 1, "batchId": 0}

    assert [counts.count_batch("kept", from_spark(progress), None, Gone()) for _ in range(3)] == [
        {},
        {},
        {},
    ]
    assert Gone.asked == 1
    clock.now += AFTER_FAILURE_S
    counts.count_batch("kept", from_spark(progress), None, Gone())
    assert Gone.asked == 2
