"""The demo's folder: written once, resumed, never somebody else's; the command says so."""

from __future__ import annotations

import ast
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import config
from headrace.cli.main import main
from headrace.define import loader
from headrace.demo import folder, input_reader, kafka_transport, log_lines
from headrace.errors import ConfigError, SetupError
from headrace.json_file import read_json, write_json


def test_a_new_folder_gets_a_project_whose_settings_load(tmp_path: Path) -> None:
    places, is_new, _ = folder.prepare(tmp_path / "demo")

    settings = config.load(places.folder)
    assert is_new
    assert list(loader.discover(settings)) == ["metrics"]
    assert set(settings.sources) == {"raw_logs", "customers"}
    assert places.incoming.is_dir()
    assert (places.folder / ".gitignore").is_file()
    assert len(input_reader.customers(places.customers)) == log_lines.CUSTOMERS


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    assert folder.prepare(tmp_path)[1]


def test_a_folder_of_the_demo_is_resumed_and_edits_are_kept(tmp_path: Path) -> None:
    places, _, seed = folder.prepare(tmp_path)
    pipeline = places.folder / "pipelines" / "metrics.py"
    pipeline.write_text("mine")
    places.customers.unlink()

    again, is_new, same_seed = folder.prepare(tmp_path)

    assert (vars(again), is_new, same_seed) == (vars(places), False, seed)
    assert pipeline.read_text() == "mine"
    assert not places.customers.exists(), "removed on purpose"


def test_a_folder_that_was_written_half_is_completed(tmp_path: Path) -> None:
    places, _, seed = folder.prepare(tmp_path)
    write_json(places.marker, {**(read_json(places.marker) or {}), "complete": False})
    places.customers.unlink()
    (places.folder / "README.md").write_text("mine")

    _, is_new, same_seed = folder.prepare(tmp_path)

    assert (is_new, same_seed) == (True, seed)
    assert places.customers.exists()
    assert (places.folder / "README.md").read_text() == "mine"


def test_any_other_folder_is_refused_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(ConfigError) as raised:
        folder.prepare(tmp_path)

    assert raised.value.code == "demo-folder-taken"
    assert "--dir" in str(raised.value.fix)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine")

    with pytest.raises(ConfigError):
        folder.prepare(tmp_path / "demo")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SetupError, match="Cannot write"):
        folder.prepare(tmp_path / "file" / "below")


def test_a_folder_has_one_demo_at_a_time(tmp_path: Path) -> None:
    places, _, _ = folder.prepare(tmp_path)

    with folder.alone(places):
        done = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path)])

    assert done.exit_code == 3
    assert "A demo is already running in" in done.stderr
    with folder.alone(places):
        pass


def test_the_command_refuses_a_taken_folder_with_code_2(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    done = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path)])

    assert done.exit_code == 2
    assert "--dir" in done.stderr


def test_the_pipeline_is_what_a_user_may_write() -> None:
    """No name of Headrace's inside: only the public ones."""
    tree = ast.parse(folder.files()["pipelines/metrics.py"])
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    froms = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}

    assert imported | froms == {"headrace", "pyspark.sql"}


def test_a_demo_goes_on_with_what_it_was_begun_with(tmp_path: Path) -> None:
    """Its alerts are in one store: those of files would be counted against those of Kafka."""
    folder.prepare(tmp_path / "files")
    folder.prepare(tmp_path / "topics", "kafka", 9093)

    for name, profile, fix in (("files", "kafka", "demo --dir"), ("topics", "dev", "demo --kafka")):
        with pytest.raises(ConfigError) as refused:
            folder.prepare(tmp_path / name, profile)
        assert fix in str(refused.value.fix)


def test_with_kafka_the_profile_names_the_port_that_is_free(tmp_path: Path) -> None:
    places, _, _ = folder.prepare(tmp_path, "kafka", 9093)

    settings = config.load(places.folder, "kafka")

    assert kafka_transport.topics_of(settings) == kafka_transport.DemoTopics(
        "127.0.0.1:9093", "rawLogs", "clusterHeartbeats", "headraceAlerts"
    )
    assert places.history == places.folder / settings.sinks["metrics"]["path"]


def test_settings_that_name_no_topic_are_told(tmp_path: Path) -> None:
    places, _, _ = folder.prepare(tmp_path, "kafka")

    with pytest.raises(ConfigError) as told:
        kafka_transport.topics_of(config.load(places.folder))
    assert told.value.code == "demo-topics"


def test_a_broker_that_does_not_answer_is_no_sign_that_all_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_transport, "ASK_S", 0.3)
    places, _, _ = folder.prepare(tmp_path, "kafka", 1)  # nobody listens there

    with closing(
        kafka_transport.KafkaTransport(config.load(places.folder, "kafka"), places)
    ) as medium:
        assert medium.pending() == ["127.0.0.1:1 does not answer."]
        assert medium.behind(300) == 0
