"""Which jars a session is given, and what becomes of a fetch that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2e import rig
from headrace.connectors import jars
from headrace.errors import ConfigError

KAFKA = jars.BUNDLES["kafka"]
RIGHT = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{jars.spark_version()}"


@pytest.fixture
def nothing_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars.sys, "prefix", str(tmp_path))


@pytest.mark.parametrize(
    ("kinds", "code", "expected"),
    [
        (["parquet"], [], set()),
        (["kafka", "parquet"], [], {"kafka"}),
        (["event_hubs"], [], {"kafka"}),
        ([], ['spark.readStream.format("kafka")'], {"kafka"}),
        ([], ["# nothing of kafkaesque"], set()),
    ],
)
def test_jars_are_wanted_for_connectors_and_for_what_code_speaks_of(
    kinds: list[str], code: list[str], expected: set[str]
) -> None:
    assert jars.wanted(kinds, code) == expected


@pytest.mark.usefixtures("nothing_fetched")
def test_without_a_folder_sparks_resolver_is_told_the_coordinate_that_fits() -> None:
    assert jars.coordinate(KAFKA) == RIGHT
    assert jars.settings(["kafka"], {}) == {jars.PACKAGES: RIGHT}
    own = {jars.PACKAGES: "org.example:own:1.0"}
    assert jars.settings(["kafka"], own) == {jars.PACKAGES: f"org.example:own:1.0,{RIGHT}"}


@pytest.mark.usefixtures("nothing_fetched")
def test_a_folder_that_was_fetched_comes_first_and_keeps_the_users_own() -> None:
    folder = jars.folder(KAFKA)
    folder.mkdir(parents=True)
    (folder / "a.jar").touch()

    given = jars.settings(["kafka"], {jars.JARS: "own.jar"})

    assert given == {jars.JARS: f"own.jar,{folder / 'a.jar'}"}


@pytest.mark.parametrize("key", [jars.PACKAGES, jars.JARS])
def test_what_the_user_gives_is_not_given_twice(key: str) -> None:
    own = RIGHT if key == jars.PACKAGES else f"/j/{RIGHT.split(':')[1]}-{jars.spark_version()}.jar"

    assert jars.settings(["kafka"], {key: own}) == {}


@pytest.mark.parametrize(
    "own",
    [
        "org.apache.spark:spark-sql-kafka-0-10_2.13:3.5.1",
        f"org.apache.spark:spark-sql-kafka-0-10_2.12:{jars.spark_version()}",
    ],
)
def test_a_connector_of_another_spark_is_refused_with_the_right_one_and_the_command(
    own: str,
) -> None:
    with pytest.raises(ConfigError) as caught:
        jars.settings(["kafka"], {jars.PACKAGES: f"org.example:own:1.0, {own}"})

    assert caught.value.code == "jars-mismatch"
    assert own in caught.value.what
    assert RIGHT in str(caught.value.fix)
    assert "headrace jars fetch kafka" in str(caught.value.fix)


def test_what_spark_brings_along_is_left_out() -> None:
    found = [Path("kafka-clients-3.9.2.jar"), Path("lz4-java-1.8.0.jar"), Path("slf4j-api-2.0.jar")]
    sparks = [Path("lz4-java-1.10.1.jar"), Path("slf4j-api-2.1.jar")]

    assert jars.needed(found, sparks) == [Path("kafka-clients-3.9.2.jar")]


@pytest.mark.e2e
def test_without_maven_the_jars_and_their_folder_are_named(tmp_path: Path) -> None:
    bare = {**os.environ, "PATH": str(tmp_path)}

    told = rig.Project(tmp_path).headrace("jars", "fetch", "kafka", code=3, env=bare)

    assert "Maven was not found" in told
    assert RIGHT in told
    assert str(jars.folder(KAFKA)) in told


@pytest.mark.e2e
def test_a_fetch_that_fails_says_why_and_leaves_what_was_there(tmp_path: Path) -> None:
    """Real Maven, with a repository where nobody answers and nothing of its own."""
    before = jars.fetched(KAFKA)
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(
        "<settings><mirrors><mirror><id>nobody</id><mirrorOf>*</mirrorOf>"
        "<url>http://127.0.0.1:9/</url></mirror></mirrors></settings>"
    )
    alone = {**os.environ, "MAVEN_OPTS": f"-Duser.home={tmp_path}"}

    told = rig.Project(tmp_path).headrace("jars", "fetch", "kafka", code=3, env=alone)

    assert "The jars of kafka could not be fetched" in told
    assert "127.0.0.1:9" in told
    assert before
    assert jars.fetched(KAFKA) == before
