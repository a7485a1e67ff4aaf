"""Exactly the committed files of a sink, as its log says; no log, a gap or damage is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoints import committed_files
from headrace.errors import ConnectorError


def entry(name: str, action: str = "add", **more: Any) -> str:
    """A line as Spark 4.2 writes it."""
    body = {
        "path": f"file:///out/{name}",
        "size": 755,
        "isDir": False,
        "modificationTime": 1700000000000,
        "blockReplication": 1,
        "blockSize": 33554432,
        "action": action,
        **more,
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def log(sink: Path, name: str, *lines: str) -> None:
    folder = sink / "_spark_metadata"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(["v1", *lines]), encoding="utf-8")


def seen(sink: Path) -> list[tuple[str, int | None]]:
    return [(one.path, one.batch) for one in committed_files.files(sink)]


def code(sink: Path) -> str:
    with pytest.raises(ConnectorError) as caught:
        committed_files.files(sink)
    assert str(sink) in str(caught.value)
    assert caught.value.fix
    return caught.value.code


def twelve_batches(sink: Path) -> None:
    """0 to 8, 9.compact, 10, 11: one file a batch."""
    for number in (*range(9), 10, 11):
        log(sink, str(number), entry(f"f{number}"))
    log(sink, "9.compact", *(entry(f"f{number}") for number in range(10)))


def test_batches_are_listed_in_order_with_their_numbers_and_sizes(tmp_path: Path) -> None:
    log(tmp_path, "0", entry("a"), entry("b"))
    log(tmp_path, "1", entry("c", size=9))

    found = committed_files.files(tmp_path)

    assert [(c.path, c.batch) for c in found] == [("/out/a", 0), ("/out/b", 0), ("/out/c", 1)]
    assert [c.size for c in found] == [755, 755, 9]


def test_a_file_that_is_only_in_the_folder_does_not_count(tmp_path: Path) -> None:
    log(tmp_path, "0", entry("a"))
    (tmp_path / "part-cut-half-way.parquet").write_bytes(b"PAR1")

    assert seen(tmp_path) == [("/out/a", 0)]


def test_the_newest_compact_entry_stands_for_all_before_it(tmp_path: Path) -> None:
    twelve_batches(tmp_path)

    assert seen(tmp_path) == [(f"/out/f{number}", number) for number in range(12)]


def test_batches_stay_unknown_when_only_the_compact_entry_is_left(tmp_path: Path) -> None:
    twelve_batches(tmp_path)
    for number in range(9):
        (tmp_path / "_spark_metadata" / str(number)).unlink()

    found = seen(tmp_path)

    assert [path for path, _ in found] == [f"/out/f{number}" for number in range(12)]
    assert [batch for _, batch in found] == [None] * 10 + [10, 11]


def test_a_batch_of_an_older_compact_entry_is_known_while_its_parts_are_there(
    tmp_path: Path,
) -> None:
    twelve_batches(tmp_path)
    for number in range(12, 19):
        log(tmp_path, str(number), entry(f"f{number}"))
    log(tmp_path, "19.compact", *(entry(f"f{number}") for number in range(20)))
    all_there = seen(tmp_path)

    (tmp_path / "_spark_metadata" / "9.compact").unlink()
    (tmp_path / "_spark_metadata" / "15").unlink()
    some_gone = dict(seen(tmp_path))

    assert all_there == [(f"/out/f{number}", number) for number in range(20)]
    assert len(some_gone) == 20
    assert [some_gone[f"/out/f{n}"] for n in (8, 9, 14, 15, 16, 19)] == [
        8,
        None,
        14,
        None,
        16,
        None,
    ]


def test_an_entry_beside_its_compact_form_is_not_counted_twice(tmp_path: Path) -> None:
    twelve_batches(tmp_path)
    log(tmp_path, "9", entry("f9"))

    assert len(seen(tmp_path)) == 12


def test_damage_in_what_was_compacted_no_longer_matters(tmp_path: Path) -> None:
    twelve_batches(tmp_path)
    (tmp_path / "_spark_metadata" / "3").write_bytes(b"\xff")

    assert len(seen(tmp_path)) == 12


def test_a_deleted_file_does_not_count(tmp_path: Path) -> None:
    log(tmp_path, "0", entry("a"), entry("b"))
    log(tmp_path, "1", entry("a", action="delete"))

    assert seen(tmp_path) == [("/out/b", 0)]


def test_a_batch_without_files_is_no_gap(tmp_path: Path) -> None:
    log(tmp_path, "0", entry("a"))
    log(tmp_path, "1")
    log(tmp_path, "2", entry("c"))

    assert seen(tmp_path) == [("/out/a", 0), ("/out/c", 2)]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///o/out%20dir/k=a%20b%2525é+0/x.parquet", "/o/out dir/k=a b%25é+0/x.parquet"),
        ("file:/o/one-slash", "/o/one-slash"),
        ("file:///o/a%23b%3Fc;d", "/o/a#b?c;d"),
        ("/o/no%20scheme", "/o/no scheme"),
        ("s3a://bucket/a%20b/c", "s3a://bucket/a b/c"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a"),
    ],
)
def test_paths_are_decoded_once(tmp_path: Path, uri: str, path: str) -> None:
    log(tmp_path, "0", entry("x", path=uri))

    assert seen(tmp_path) == [(path, 0)]


def test_a_folder_that_is_not_there_or_empty_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".keep").touch()

    assert [seen(tmp_path / n) for n in ("none", "empty", "begun", "hidden")] == [[], [], [], []]


def test_files_without_a_log_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").touch()

    assert code(tmp_path) == "no-commit-log"


def test_checksums_and_temporary_names_in_the_log_are_ignored(tmp_path: Path) -> None:
    log(tmp_path, "0", entry("a"))
    for name in (".0.crc", ".1.uuid.tmp", "1.tmp", "x.compact", ".compact", "-1"):
        (tmp_path / "_spark_metadata" / name).write_text("half")

    assert seen(tmp_path) == [("/out/a", 0)]


@pytest.mark.parametrize("missing", ["0", "1", "2"])
def test_a_gap_without_a_compact_entry_is_an_error(tmp_path: Path, missing: str) -> None:
    for number in range(4):
        log(tmp_path, str(number), entry(f"f{number}"))

    (tmp_path / "_spark_metadata" / missing).unlink()

    assert code(tmp_path) == "commit-log-gap"


@pytest.mark.parametrize("missing", ["9.compact", "10"])
def test_a_gap_after_compaction_is_an_error(tmp_path: Path, missing: str) -> None:
    twelve_batches(tmp_path)

    (tmp_path / "_spark_metadata" / missing).unlink()

    assert code(tmp_path) == "commit-log-gap"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"v2\n",
        b"garbage",
        b"v1\n{",
        b"v1\n[]",
        b'v1\n{"size":1,"action":"add"}',
        b'v1\n{"path":"file:///a","size":1,"action":"move"}',
        b'v1\n{"path":"file:///a","action":"add"}',
        b"v1\n\xff",
        b"v1\n" + b"[" * 200_000,
        bytes(100),
    ],
)
@pytest.mark.parametrize("name", ["11", "9.compact"])
def test_damage_is_an_error_and_never_a_shorter_list(
    tmp_path: Path, name: str, content: bytes
) -> None:
    twelve_batches(tmp_path)

    (tmp_path / "_spark_metadata" / name).write_bytes(content)

    assert code(tmp_path) == "commit-log-damaged"


def test_a_line_cut_in_the_middle_is_an_error(tmp_path: Path) -> None:
    log(tmp_path, "0", entry("a"), entry("b")[:-20])

    assert code(tmp_path) == "commit-log-damaged"


def test_ten_thousand_files_are_listed(tmp_path: Path) -> None:
    log(tmp_path, "9.compact", *(entry(f"f{number}") for number in range(10_000)))

    assert len(committed_files.files(tmp_path)) == 10_000
