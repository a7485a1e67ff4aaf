from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli import warm
from headrace.errors import SetupError


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("a file")

    with pytest.raises(SetupError) as caught:
        warm.keep(tmp_path / "share" / "spark-classes.jsa")

    assert caught.value.code == "warm-failed"


def test_a_java_that_fails_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho this java is broken >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    archive = tmp_path / "share" / "spark-classes.jsa"

    with pytest.raises(SetupError) as caught:
        warm.keep(archive)

    assert "this java is broken" in str(caught.value)
    assert caught.value.where == str(archive.parent)
    assert list(archive.parent.iterdir()) == []
