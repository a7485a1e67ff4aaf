"""Guides as projects: their files and samples, as printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from guidebook import Guide


@pytest.fixture(scope="module")
def spark(spark: Any) -> Iterator[Any]:
    """The session of all tests, with what Headrace sets and one state partition."""
    from headrace.driver import session as ours

    wanted = {d.key: d.value for d in ours.DEFAULTS if d.key.startswith("spark.sql.")}
    wanted["spark.sql.shuffle.partitions"] = "1"
    wanted = {key: value for key, value in wanted.items() if spark.conf.isModifiable(key)}
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@pytest.fixture
def guide(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Guide]]:
    """`guide("joins", "shown", "clicks")`: the page's files in a new project with these folders."""
    monkeypatch.chdir(tmp_path)  # a driver works in the project's folder
    opened: list[Guide] = []

    def open_(page: str, *folders: str, change: tuple[str, str] | None = None) -> Guide:
        made = Guide(page, tmp_path, spark)
        made.write_files(change)
        for folder in folders or ("incoming",):
            (tmp_path / folder).mkdir()
        opened.append(made)
        return made

    yield open_
    for query in spark.streams.active:
        query.stop()
