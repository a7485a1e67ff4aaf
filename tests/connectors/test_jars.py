"""Which jars a session is given, and what becomes of a fetch that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from e2e import rig
from headrace.cli import jars as cli
from headrace.connectors import jars
from headrace.driver import script_packages
from headrace.errors import ConfigError

KAFKA = jars.BUNDLES["kafka"]
MINOR = ".".join(jars.spark_version().split(".")[:2])
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
    assert jars.detect_bundles(kinds, code) == expected


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


SCRIPTS = "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1"
OWN = "org.example:own:1.0"


@pytest.mark.usefixtures("nothing_fetched")
@pytest.mark.parametrize(
    ("options", "submit", "label"),
    [
        ({jars.PACKAGES: SCRIPTS}, "", jars.PACKAGES),
        ({}, f"--packages {SCRIPTS} pyspark-shell", "--packages in PYSPARK_SUBMIT_ARGS"),
        ({}, f'--conf "spark.jars.packages={OWN},{SCRIPTS}" x', "PYSPARK_SUBMIT_ARGS"),
    ],
)
def test_a_script_with_a_connector_of_another_spark_is_refused_with_the_one_that_fits(
    options: dict[str, str], submit: str, label: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        script_packages.correct(options, {script_packages.SUBMIT: submit}, "count.py:4")

    assert caught.value.code == "jars-mismatch"
    assert label in caught.value.what
    assert SCRIPTS in caught.value.what
    assert caught.value.where == "count.py:4"
    assert f"use {RIGHT}" in str(caught.value.fix)
    assert "`headrace jars fetch kafka` to replace" in str(caught.value.fix)


@pytest.mark.usefixtures("nothing_fetched")
def test_fetched_jars_override_a_script_s_connector_of_another_spark_and_that_is_said() -> None:
    fetched = jars.folder(KAFKA) / "a.jar"
    fetched.parent.mkdir(parents=True)
    fetched.touch()
    wrong = "/j/spark-sql-kafka-0-10_2.12-3.5.1.jar"
    options = {jars.PACKAGES: SCRIPTS, jars.JARS: f"{wrong},own.jar", "spark.app.name": "x"}
    environment = {
        script_packages.SUBMIT: f"--packages {OWN},{SCRIPTS} --jars {wrong} pyspark-shell"
    }

    said = script_packages.correct(options, environment, "count.py:4")

    assert options == {jars.JARS: f"own.jar,{fetched}", "spark.app.name": "x"}
    assert environment == {script_packages.SUBMIT: f"--packages {OWN} pyspark-shell"}
    assert len(said) == 4
    assert all("Headrace uses the jars from `headrace jars fetch kafka`" in one for one in said)
    assert all(RIGHT in one for one in said)


@pytest.mark.parametrize(
    "own",
    [
        RIGHT,
        OWN,
        f"org.apache.spark:spark-avro_2.13:{MINOR}.7",
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "/j/spark-cassandra-connector_2.13-3.5.1.jar",
    ],
)
def test_what_fits_or_does_not_say_what_it_is_for_is_left_alone(own: str) -> None:
    options, environment = (
        {jars.PACKAGES: own},
        {script_packages.SUBMIT: f"--jars {own} pyspark-shell"},
    )

    assert script_packages.correct(options, environment, "count.py:4") == []
    assert options == {jars.PACKAGES: own}
    assert environment == {script_packages.SUBMIT: f"--jars {own} pyspark-shell"}


def test_a_library_of_another_scala_is_refused_too() -> None:
    own = {jars.PACKAGES: "com.datastax.spark:spark-cassandra-connector_2.12:3.5.1"}

    with pytest.raises(ConfigError, match=r"use com.datastax.spark:.*_2\.13"):
        script_packages.correct(own, {}, "count.py:4")


def test_what_spark_brings_along_is_left_out() -> None:
    found = [Path("kafka-clients-3.9.2.jar"), Path("lz4-java-1.8.0.jar"), Path("slf4j-api-2.0.jar")]
    sparks = [Path("lz4-java-1.10.1.jar"), Path("slf4j-api-2.1.jar")]

    assert jars.exclude_provided(found, sparks) == [Path("kafka-clients-3.9.2.jar")]


@pytest.mark.parametrize(
    ("spark", "asked"),
    [
        ("4.2.0", "<version>[4.2.0]</version>"),
        ("4.2.2", "<version>[4.2.0],[4.2.1],[4.2.2]</version>"),
        ("4.3.0.dev1", "<version>[4.3.0.dev1]</version>"),
    ],
)
def test_maven_is_asked_for_the_newest_connector_of_the_same_minor_version(
    spark: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "spark_version", lambda: spark)

    assert asked in jars.pom(KAFKA)


@pytest.mark.e2e
@pytest.mark.usefixtures("nothing_fetched")
def test_a_pyspark_newer_than_its_connectors_gets_the_newest_one_and_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Real Maven and its repositories, for a version that nobody has published."""
    monkeypatch.setattr(jars, "spark_version", lambda: f"{MINOR}.90")

    told = CliRunner().invoke(cli.jars, ["fetch", "kafka"], catch_exceptions=False)

    taken = str(jars.fetched_version(KAFKA))
    assert taken.startswith(f"{MINOR}.")
    assert f"for Spark {taken}, the newest" in told.output
    assert f"compatible with the installed PySpark {MINOR}.90" in told.output
    assert jars.folder(KAFKA) / f"spark-sql-kafka-0-10_2.13-{taken}.jar" in jars.fetched_files(
        KAFKA
    )


@pytest.mark.e2e
def test_without_maven_the_jars_and_their_folder_are_named(tmp_path: Path) -> None:
    bare = {**os.environ, "PATH": str(tmp_path)}

    told = rig.Project(tmp_path).headrace("jars", "fetch", "kafka", code=3, env=bare)

    assert "Maven is required to fetch jars" in told
    assert RIGHT in told
    assert str(jars.folder(KAFKA)) in told


@pytest.mark.e2e
def test_a_fetch_that_fails_says_why_and_leaves_what_was_there(tmp_path: Path) -> None:
    """Real Maven, with a repository where nobody answers and nothing of its own."""
    before = jars.fetched_files(KAFKA)
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(
        "<settings><mirrors><mirror><id>nobody</id><mirrorOf>*</mirrorOf>"
        "<url>http://127.0.0.1:9/</url></mirror></mirrors></settings>"
    )
    alone = {**os.environ, "MAVEN_OPTS": f"-Duser.home={tmp_path}"}

    told = rig.Project(tmp_path).headrace("jars", "fetch", "kafka", code=3, env=alone)

    assert "Could not fetch the kafka jars" in told
    assert "127.0.0.1:9" in told
    assert before
    assert jars.fetched_files(KAFKA) == before
