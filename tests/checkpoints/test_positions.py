"""Where a query stands in its topics, from files of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from headrace.checkpoints import positions
from headrace.model.gaps import Gap


def checkpoint(folder: Path, *sources: str) -> Path:
    for name, text in (("offsets", "\n".join(["v1", "{}", *sources])), ("commits", "v1\n{}")):
        (folder / name).mkdir(parents=True)
        (folder / name / "3").write_text(text)
    (folder / "offsets" / "4").write_text('v1\n{}\n{"logs":{"0":99}}')  # planned, not done
    return folder


def test_it_is_the_last_batch_that_is_done(tmp_path: Path) -> None:
    made = checkpoint(tmp_path / "c", '{"logs":{"0":10,"1":7}}', '{"other":{"0":1}}')

    expected = {"logs": {0: 10, 1: 7}, "other": {0: 1}}
    assert positions.read(str(made)) == expected
    assert positions.read(made.as_uri()) == expected


def test_other_sources_and_what_is_no_json_are_left_out(tmp_path: Path) -> None:
    made = checkpoint(tmp_path / "c", '{"logOffset":3}', "-", "17", '{"a":', '{"s":{"x":1}}')

    assert positions.read(str(made)) == {}


def test_where_a_source_began_is_read_from_its_own_log(tmp_path: Path) -> None:
    (tmp_path / "sources" / "1").mkdir(parents=True)
    (tmp_path / "sources" / "1" / "0").write_bytes(b'\0v1\n{"raw":{"0":7,"1":0}}')
    (tmp_path / "sources" / "2").mkdir()
    (tmp_path / "sources" / "2" / "0").write_text('v1\n{"path":"a","timestamp":1,"batchId":0}')

    assert positions.first(tmp_path, 1) == {"raw": {0: 7, 1: 0}}
    assert positions.first(tmp_path, 2) == {}
    assert positions.first(tmp_path, 3) == positions.first(None, 1) == {}


def test_gaps_are_behind_when_every_query_has_passed_its_own(tmp_path: Path) -> None:
    kept = checkpoint(tmp_path / "kept", '{"logs":{"0":10,"1":7}}')
    copied = checkpoint(tmp_path / "copied", '{"logs":{"0":10,"1":3}}')
    before = [Gap("kept", "logs", 1, first=2, low=7, high=9, checkpoint=str(kept)).to_json()]
    within = [Gap("copied", "logs", 1, first=2, low=7, high=9, checkpoint=str(copied)).to_json()]
    elsewhere = [Gap("kept", "logs", 1, 2, 7, 9, checkpoint="s3a://bucket/p/q/v1").to_json()]

    assert positions.are_behind([])
    assert positions.are_behind(before)
    assert not positions.are_behind(within)
    assert not positions.are_behind(before + within)
    assert not positions.are_behind(elsewhere)
    (kept / "offsets" / "3").write_text("v1\n{}\n{}")  # its only topic is gone
    assert positions.are_behind(before)
    (kept / "offsets" / "3").unlink()
    assert not positions.are_behind(before)


def test_no_checkpoint_yet_is_nothing_and_one_elsewhere_is_not_known(tmp_path: Path) -> None:
    assert positions.read(str(tmp_path / "none")) == {}
    assert positions.read("s3a://bucket/checkpoints/p/q/v1") is None
