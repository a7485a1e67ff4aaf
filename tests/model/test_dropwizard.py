"""Spark's own metrics: what a user may write, and Spark's settings for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace import config
from headrace.errors import ConfigError
from headrace.model import dropwizard

GRAPHITE = {"*.sink.graphite.host": "g.example.org", "*.sink.graphite.port": 2003}


def test_one_setting_switches_the_metrics_on(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("[metrics]\ndropwizard = true\n")
    settings = config.load(tmp_path)

    found = dropwizard.spark_settings(settings.dropwizard, {}, "orders")

    assert found["spark.sql.streaming.metricsEnabled"] == "true"
    assert found["spark.metrics.namespace"] == "orders"
    assert found["spark.metrics.conf.*.sink.jmx.class"].endswith(".JmxSink")
    assert found["spark.metrics.conf.*.sink.prometheus.path"] == "/metrics/prometheus"
    assert settings.metrics == {}, "it is no exporter of the relay"


@pytest.mark.parametrize("given", [None, False])
def test_without_it_spark_is_left_alone(given: Any) -> None:
    assert dropwizard.spark_settings(dropwizard.parse(given, "x"), {}, "orders") == {}


def test_a_known_sink_needs_no_class(tmp_path: Path) -> None:
    toml = '[metrics.dropwizard]\n"*.sink.graphite.host" = "g"\n"*.sink.graphite.port" = 2003\n'
    (tmp_path / "headrace.toml").write_text(toml + '"driver.source.jvm.class" = "a.JvmSource"\n')

    found = dropwizard.spark_settings(config.load(tmp_path).dropwizard, {}, "orders")

    assert found["spark.metrics.conf.*.sink.graphite.class"].endswith(".GraphiteSink")
    assert found["spark.metrics.conf.*.sink.graphite.port"] == "2003"
    assert found["spark.metrics.conf.driver.source.jvm.class"] == "a.JvmSource"
    assert found["spark.metrics.conf.*.sink.jmx.class"].endswith(".JmxSink")


def test_the_users_own_settings_win() -> None:
    properties = dropwizard.parse(GRAPHITE, "x")
    own = {"spark.metrics.conf.*.sink.graphite.port": "1", "spark.metrics.namespace": "mine"}

    found = dropwizard.spark_settings(properties, own, "orders")

    assert found["spark.metrics.conf.*.sink.graphite.port"] == "1"
    assert found["spark.metrics.namespace"] == "mine"


def test_a_file_of_the_user_decides_about_all_sinks() -> None:
    found = dropwizard.spark_settings({}, {"spark.metrics.conf": "/my/metrics.properties"}, "p")

    assert not [key for key in found if key.startswith("spark.metrics.conf.")]
    assert found["spark.sql.streaming.metricsEnabled"] == "true"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('dropwizard = "yes"', "true, false or a table"),
        ('dropwizard = {"sink.graphite.host" = "g"}', "INSTANCE.sink.NAME.PROPERTY"),
        ('dropwizard = {"driver.sink.graphite" = "g"}', "INSTANCE.sink.NAME.PROPERTY"),
        ('dropwizard = {"*.sink.graphite.host" = ["g"]}', "text or number"),
        ('dropwizard = {"*.sink.graphite.host" = "g"}', "lacks port"),
        ('dropwizard = {"*.sink.mine.host" = "g"}', "has no class"),
    ],
)
def test_what_spark_would_not_start_with_is_refused_with_its_line(
    tmp_path: Path, given: str, words: str
) -> None:
    (tmp_path / "headrace.toml").write_text(f"[metrics]\n{given}\n")

    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path)

    assert words in str(caught.value)
    assert caught.value.where == "headrace.toml:2"
    assert caught.value.code == "metrics-dropwizard"
