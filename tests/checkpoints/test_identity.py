"""Whose checkpoint it is: foreign, replaced and lost ones are refused, the rest goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints.samples import QUERY_ID, good
from headrace.checkpoints import checkpoint_content, identity
from headrace.checkpoints.identity import Identity
from headrace.errors import CheckpointError

OURS = Identity("shop", "orders", "metrics", QUERY_ID, epoch=3, fingerprint={"mode": "append"})


def verdict(path: Path, noted: Identity | None, **asked: str) -> CheckpointError | None:
    who = {"pipeline": "shop", "query": "orders", "project": "metrics", **asked}
    return identity.verify(noted, checkpoint_content.read(path), **who)


def test_a_note_comes_back_as_it_was_written(tmp_path: Path) -> None:
    identity.write(tmp_path / "v1", OURS)

    assert identity.read(tmp_path / "v1") == OURS
    assert [p.name for p in tmp_path.iterdir()] == ["v1.json"]
    keys = {"query_id", "epoch", "fingerprint", "pipeline", "query", "project"}
    assert set(json.loads((tmp_path / "v1.json").read_text())) == keys


def test_no_note_is_none(tmp_path: Path) -> None:
    assert identity.read(tmp_path / "v1") is None


def test_fields_of_a_newer_writer_are_ignored(tmp_path: Path) -> None:
    body = {**OURS.to_json(), "colour": "blue"}
    (tmp_path / "v1.json").write_text(json.dumps(body))

    assert identity.read(tmp_path / "v1") == OURS


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"pipeline": 1, "query": 2, "project": 3}', "\x00" * 20]
)
def test_a_torn_note_is_refused_with_a_fix(tmp_path: Path, content: str) -> None:
    (tmp_path / "v1.json").write_text(content)

    with pytest.raises(CheckpointError) as caught:
        identity.read(tmp_path / "v1")

    assert caught.value.code == "checkpoint-identity-damaged"
    assert caught.value.where == str(tmp_path / "v1.json")
    assert "mv" in (caught.value.fix or "")


def test_our_own_checkpoint_may_be_used(tmp_path: Path) -> None:
    assert verdict(good(tmp_path / "v1"), OURS) is None


def test_a_first_start_may_go_on(tmp_path: Path) -> None:
    assert verdict(tmp_path / "v1", None) is None
    assert verdict(tmp_path / "v1", replace(OURS, query_id=None)) is None


def test_a_checkpoint_from_before_headrace_may_be_taken_over(tmp_path: Path) -> None:
    assert verdict(good(tmp_path / "v1"), None) is None


@pytest.mark.parametrize(
    "asked", [{"pipeline": "other"}, {"query": "other"}, {"project": "other"}, {"query": "Orders"}]
)
def test_a_foreign_checkpoint_is_refused(tmp_path: Path, asked: dict[str, str]) -> None:
    error = verdict(good(tmp_path / "v1"), OURS, **asked)

    assert error is not None
    assert error.code == "checkpoint-foreign"
    assert "shop/orders" in error.what
    assert next(iter(asked.values())) in error.what


def test_the_project_is_not_compared_when_it_is_not_known(tmp_path: Path) -> None:
    found = checkpoint_content.read(good(tmp_path / "v1"))

    assert identity.verify(OURS, found, "shop", "orders") is None


def test_lost_metadata_is_refused_and_the_fix_restores_it(tmp_path: Path) -> None:
    path = good(tmp_path / "it's a folder" / "v1")
    (path / "metadata").unlink()
    error = verdict(path, OURS)
    assert error is not None
    assert error.code == "checkpoint-metadata-lost"
    assert f'{{"id":"{QUERY_ID}"}}' in (error.fix or "")

    subprocess.run(["sh", "-c", error.fix or ""], check=True)

    assert (path / "metadata").read_text() == f'{{"id":"{QUERY_ID}"}}'
    assert verdict(path, OURS) is None
    assert checkpoint_content.read(path).problems == ()


def test_damaged_metadata_counts_as_lost(tmp_path: Path) -> None:
    path = good(tmp_path / "v1")
    (path / "metadata").write_text("")

    error = verdict(path, OURS)

    assert error is not None
    assert error.code == "checkpoint-metadata-lost"


@pytest.mark.parametrize("is_there", [True, False])
def test_an_emptied_checkpoint_is_not_begun_anew_in_silence(tmp_path: Path, is_there: bool) -> None:
    path = good(tmp_path / "v1")
    shutil.rmtree(path)
    if is_there:
        path.mkdir()

    error = verdict(path, OURS)

    assert error is not None
    assert error.code == "checkpoint-metadata-lost"
    assert "to reprocess all input" in (error.fix or "")


def test_lost_metadata_without_a_note_is_refused_too(tmp_path: Path) -> None:
    path = good(tmp_path / "v1")
    (path / "metadata").unlink()

    error = verdict(path, None)

    assert error is not None
    assert error.code == "checkpoint-metadata-lost"


def test_a_replaced_checkpoint_is_refused_and_names_both_ids(tmp_path: Path) -> None:
    other = "00000000-0000-4000-8000-000000000000"

    error = verdict(good(tmp_path / "v1"), replace(OURS, query_id=other))

    assert error is not None
    assert error.code == "checkpoint-replaced"
    assert other in error.what
    assert QUERY_ID in error.what


def test_foreign_comes_before_lost(tmp_path: Path) -> None:
    path = good(tmp_path / "v1")
    (path / "metadata").unlink()

    error = verdict(path, OURS, query="other")

    assert error is not None
    assert error.code == "checkpoint-foreign"
