"""What a batch's own log of files says against the disk, where its plan was not seen in time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.files import files
from headrace.driver.changed_files import InputFiles
from headrace.errors import ConnectorError
from headrace.model.progress import from_spark


def logged(folder: Path, *names: str) -> dict[str, Any]:
    """Files as a source lists them in entry 3, and the progress of the batch that read them."""
    lines = ["v1"]
    for name in names:
        path = folder / name
        path.write_text("row\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
        body = {"path": path.as_uri(), "timestamp": 1_700_000_000_000, "batchId": 3}
        lines.append(json.dumps(body, separators=(",", ":")))
    log = folder / "checkpoint" / "sources" / "0"
    log.mkdir(parents=True)
    (log / "3").write_text("\n".join(lines))
    source = {"description": f"FileStreamSource[file:{folder}]"}
    source |= {"startOffset": {"logOffset": 2}, "endOffset": {"logOffset": 3}}
    return {"runId": "r", "batchId": 7, "sources": [source]}


def test_files_that_are_as_they_were_listed_are_not_reported(tmp_path: Path) -> None:
    progress = logged(tmp_path, "a b%20;.txt")

    assert InputFiles().changes("q", from_spark(progress), tmp_path / "checkpoint") is None


def test_a_rewritten_file_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    progress = logged(tmp_path, "a.txt", "b c.txt")
    (tmp_path / "b c.txt").write_text("other\n")
    inputs = InputFiles()
    inputs.note("q", [files(tmp_path, "text")])

    found = inputs.changes("q", from_spark(progress), tmp_path / "checkpoint")

    assert found is not None
    assert (found["vanished"], found["rewritten"]) == (0, 1)
    assert found["rewritten_files"] == [str(tmp_path / "b c.txt")]
    assert inputs.loss is None


def test_a_file_that_is_gone_counts_as_lost_where_the_plan_was_not_seen(tmp_path: Path) -> None:
    progress = logged(tmp_path, "a.txt", "b.txt")
    (tmp_path / "a.txt").unlink()
    inputs = InputFiles()
    inputs.note("q", [files(tmp_path, "text")])

    found = inputs.changes("q", from_spark(progress), tmp_path / "checkpoint")

    assert found is not None
    assert found["vanished_files"] == [str(tmp_path / "a.txt")]
    assert inputs.loss is not None
    assert (inputs.loss.query, inputs.loss.batch) == ("q", 7)


def test_a_file_that_spark_itself_tidied_away_is_not_lost(tmp_path: Path) -> None:
    progress = logged(tmp_path, "a.txt")
    (tmp_path / "a.txt").unlink()
    inputs = InputFiles()
    inputs.note("q", [files(tmp_path, "text", options={"cleanSource": "delete"})])

    assert inputs.changes("q", from_spark(progress), tmp_path / "checkpoint") is None
    assert inputs.loss is None


@pytest.mark.parametrize("sources", [None, [], [None], [{"description": "KafkaV2[x]"}]])
def test_a_query_without_files_has_nothing_to_report(tmp_path: Path, sources: Any) -> None:
    progress = {"runId": "r", "batchId": 7, "sources": sources}

    assert InputFiles().changes("q", from_spark(progress), tmp_path) is None


def test_a_choice_that_does_not_exist_is_refused_with_the_near_one() -> None:
    with pytest.raises(ConnectorError) as caught:
        files("in", "text", on_missing="continu")

    assert caught.value.fix == 'Write on_missing="continue".'
    assert files("in", "text").fields() == {"kind": "text", "path": "in"}
