"""What `[metrics.kafka]` asks for, right and wrong. No broker answers here."""

from __future__ import annotations

from pathlib import Path

from headrace.model.progress_exports import Export
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay.metrics_topic import KafkaMetrics
from headrace.state import progress_exports

RIGHT = '[metrics.kafka]\nservers = "127.0.0.1:1"\n'
WRONG = RIGHT.replace("servers", "server")
WHERE = "headraceMetrics on 127.0.0.1:1"


def written(folder: Path, toml: str) -> Workspace:
    (folder / "headrace.toml").write_text(toml)
    return open_workspace(folder, "dev")


def told(work: Workspace) -> Export:
    found = progress_exports.read(work.places, "kafka")
    assert found is not None
    return found


def test_a_wrong_field_is_said_and_what_stood_there_before_holds(tmp_path: Path) -> None:
    metrics = KafkaMetrics()
    assert metrics.tick(written(tmp_path, RIGHT)) == []

    (said,) = metrics.tick(written(tmp_path, WRONG))
    wrong = told(written(tmp_path, WRONG))
    assert metrics.tick(written(tmp_path, RIGHT)) == []
    metrics.close()

    assert "no field 'server'" in said
    assert (wrong.to, wrong.problem) == (WHERE, said)
    assert told(written(tmp_path, RIGHT)).problem is None


def test_a_field_that_was_never_right_is_said_too(tmp_path: Path) -> None:
    work = written(tmp_path, WRONG)

    (said,) = KafkaMetrics().tick(work)

    assert str(told(work).words(0.0)).endswith(f"to [metrics.kafka]: none waiting. {said}")


def test_what_is_not_asked_for_leaves_nothing(tmp_path: Path) -> None:
    work = written(tmp_path, "")

    assert KafkaMetrics().tick(work) == []

    assert progress_exports.read_all(work.places) == []
