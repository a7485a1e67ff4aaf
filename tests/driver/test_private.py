"""Who may look into the folders that Headrace makes beside a project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import config
from headrace.driver import pipeline


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_headrace_keeps_is_for_its_owner_and_a_sink_is_not_touched(tmp_path: Path) -> None:
    settings = config.load(tmp_path)
    used = [
        settings.checkpoint("orders", "kept"),
        settings.result("orders", "counts"),
        settings.quarantine_path("orders", "records"),
        str(tmp_path / "data" / "out"),
    ]

    pipeline.make_private_folders(settings, used)

    made = {path.name: mode(path) for path in tmp_path.iterdir()}
    assert made == {"checkpoints": 0o700, "results": 0o700, "quarantine": 0o700}


def test_a_folder_that_somebody_opened_stays_open_and_an_unused_one_is_not_made(
    tmp_path: Path,
) -> None:
    settings = config.load(tmp_path)
    (tmp_path / "quarantine").mkdir(mode=0o755)

    pipeline.make_private_folders(settings, [settings.quarantine_path("orders", "records")])

    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {"quarantine": 0o755}


def test_a_bucket_has_no_folder_to_make(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text('[project]\ncheckpoints = "s3a://bucket/cp"\n')
    settings = config.load(tmp_path)

    pipeline.make_private_folders(settings, [settings.checkpoint("orders", "kept")])

    assert [path.name for path in tmp_path.iterdir()] == ["headrace.toml"]
