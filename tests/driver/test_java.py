from __future__ import annotations

from pathlib import Path

import pytest

from headrace.driver import java
from headrace.errors import SetupError


def fake_java(home: Path, release: str | None) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return home


def test_no_java_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(SetupError) as caught:
        java.check()

    assert caught.value.code == "java-missing"
    assert caught.value.exit_code == 3
    assert "openjdk-17" in (caught.value.fix or "")


def test_a_java_home_that_leads_nowhere_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    with pytest.raises(SetupError, match="JAVA_HOME") as caught:
        java.check()

    assert str(tmp_path / "gone") in str(caught.value)


@pytest.mark.parametrize(
    ("release", "major"), [('JAVA_VERSION="11.0.2"', 11), ('JAVA_VERSION="1.8.0_4"', 8)]
)
def test_an_old_java_is_refused_by_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str, major: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", release)))

    with pytest.raises(SetupError, match=f"Java {major} is too old") as caught:
        java.check()

    assert caught.value.code == "java-too-old"


@pytest.mark.parametrize(
    ("release", "major"), [('JAVA_VERSION="17.0.15"', 17), ('JAVA_VERSION="21"', 21), (None, 17)]
)
def test_a_new_enough_or_unknown_java_is_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str | None, major: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", release)))

    assert java.check() == major
