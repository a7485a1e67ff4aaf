"""Spark's own metrics (`[metrics] dropwizard`): what a user may set, and Spark's settings for it.

The properties of a `metrics.properties` file are passed to Spark as `spark.metrics.conf.*` settings
instead: executors on other machines get them too, and a secret in them is never in a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.errors import ConfigError

ENABLED = "spark.sql.streaming.metricsEnabled"
NAMESPACE = "spark.metrics.namespace"
FILE = "spark.metrics.conf"  # the user's own metrics.properties
PREFIX = f"{FILE}."
_PACKAGE = "org.apache.spark.metrics.sink."
# Names for which the class is known. Others need `*.sink.NAME.class`.
SINKS = {
    "console": "ConsoleSink", "csv": "CsvSink", "graphite": "GraphiteSink", "jmx": "JmxSink",
    "prometheus": "PrometheusServlet", "slf4j": "Slf4jSink", "statsd": "StatsdSink",
}  # fmt: skip
ALWAYS = {
    "*.sink.jmx.class": f"{_PACKAGE}JmxSink",
    "*.sink.prometheus.class": f"{_PACKAGE}PrometheusServlet",  # answers only if the UI is on
    "*.sink.prometheus.path": "/metrics/prometheus",
}
NEEDED = {"graphite": ("host", "port")}
_KEY = re.compile(r"(\*|driver|executor|applicationMaster)\.(sink|source)\.(\w+)\.([\w.-]+)")


def parse(given: Any, where: str) -> dict[str, str] | None:
    """The properties; None if Spark's metrics are off. Raises ConfigError."""
    if given is None or given is False:
        return None
    if given is True:
        return {}
    if not isinstance(given, Mapping):
        raise _invalid(
            f"Invalid value for metrics.dropwizard: {given!r}.",
            "It must be true, false or a table of properties.",
            where,
        )
    found = {}
    for key, value in given.items():
        if not _KEY.fullmatch(key) or not isinstance(value, str | int | float):
            raise _invalid(
                f"Invalid property in [metrics.dropwizard]: {key!r}.",
                "A property has the form INSTANCE.sink.NAME.PROPERTY, in quotes, where INSTANCE is "
                "*, driver, executor or applicationMaster, and a text or number as its value.",
                where,
            )
        found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    for instance, name in sorted({(m[1], m[3]) for m in map(_KEY.fullmatch, found) if m}):
        _check_sink(f"{instance}.sink.{name}", name, found, where)
    return found


def _check_sink(prefix: str, name: str, found: dict[str, str], where: str) -> None:
    """Adds the class. Spark would not start if a sink has no class or lacks a property."""
    of_sink = {key for key in found if key.startswith(f"{prefix}.")}
    if of_sink and f"{prefix}.class" not in found:
        if name not in SINKS:
            raise _invalid(
                f"The sink {name!r} in [metrics.dropwizard] has no class.",
                f"Headrace knows the class of: {', '.join(SINKS)}.",
                where,
                f'Add "{prefix}.class" = "…", and its jar to spark.jars.',
            )
        found[f"{prefix}.class"] = _PACKAGE + SINKS[name]
    missing = [one for one in NEEDED.get(name, ()) if of_sink and f"{prefix}.{one}" not in found]
    if missing:
        raise _invalid(
            f"The sink {name!r} in [metrics.dropwizard] lacks {' and '.join(missing)}.",
            "Spark would not start without them.",
            where,
            f'Add "{prefix}.{missing[0]}" = ….',
        )


def spark_settings(
    properties: Mapping[str, str] | None, user: Mapping[str, str], pipeline: str
) -> dict[str, str]:
    """`user` are the user's own Spark settings. They win: a file of theirs decides about all sinks.

    The names of metrics begin with the pipeline's name; Spark's default changes with every run.
    """
    if properties is None:
        return {}
    found = {ENABLED: "true", NAMESPACE: pipeline, "spark.ui.prometheus.enabled": "true"}
    if FILE not in user:
        found |= {PREFIX + key: value for key, value in {**ALWAYS, **properties}.items()}
    return found | {key: value for key, value in user.items() if key in found}


def _invalid(what: str, why: str, where: str, fix: str | None = None) -> ConfigError:
    fix = fix or 'Write for example "*.sink.graphite.host" = "graphite.example.org".'
    return ConfigError(what, why=why, where=where, fix=fix, slug="metrics-dropwizard")
