from __future__ import annotations

from pathlib import Path

from headrace.driver import class_archive


def test_without_an_archive_java_gets_no_option_more(tmp_path: Path) -> None:
    assert class_archive.use(tmp_path / "none.jsa") == ""


def test_an_archive_is_named_also_where_its_path_has_spaces(tmp_path: Path) -> None:
    archive = tmp_path / "my classes.jsa"
    archive.touch()

    assert f'"-XX:SharedArchiveFile={archive}"' in class_archive.use(archive)
