from __future__ import annotations

from pathlib import Path

from headrace.driver import session

RUN = Path("/state/runs/r1")


def test_the_user_s_own_settings_win_over_our_defaults() -> None:
    found = session.settings_of("p", {"spark.sql.shuffle.partitions": "3"}, run_dir=RUN, cores=2)

    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_java_options_of_the_user_are_added_to_ours() -> None:
    user = {"spark.driver.extraJavaOptions": "-Dx=y"}

    found = session.settings_of("p", user, run_dir=RUN, cores=2)

    assert found["spark.driver.extraJavaOptions"].startswith("-Xss8m")
    assert found["spark.driver.extraJavaOptions"].endswith("-Dx=y")


def test_local_mode_has_at_least_four_slots_and_one_a_core() -> None:
    assert session.settings_of("p", {}, run_dir=RUN, cores=2)["spark.master"] == "local[4]"
    assert session.settings_of("p", {}, run_dir=RUN, cores=16)["spark.master"] == "local[16]"


def test_a_cluster_keeps_spark_s_choice_where_ours_is_for_local_disks() -> None:
    found = session.settings_of("p", {"spark.master": "spark://h:7077"}, run_dir=RUN, cores=2)

    assert "spark.sql.streaming.checkpointFileManagerClass" not in found
    assert "spark.driver.bindAddress" not in found


def test_settings_are_written_for_the_owner_only(tmp_path: Path) -> None:
    session.write_conf(tmp_path / "conf", {"spark.x.password": "a\\b"})

    path = tmp_path / "conf" / "spark-defaults.conf"
    assert path.read_text() == "spark.x.password a\\\\b\n"
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_every_default_says_why_and_stands_once() -> None:
    keys = [d.key for d in session.DEFAULTS]

    assert all(d.why for d in session.DEFAULTS)
    assert len(keys) == len(set(keys))
