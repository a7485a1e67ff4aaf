"""The settings of the exporters: `[metrics.prometheus]`, `[metrics.statsd]`, `[metrics.otlp]`.

Secrets stay references until an exporter uses them. Invariant: building the settings opens no
connection and reports all problems of a table at once.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace import secrets
from headrace.config import Settings
from headrace.connectors.connector import require_secret_reference
from headrace.connectors.settings_tables import build_from_fields
from headrace.durations import parse_duration
from headrace.errors import ConfigError, ConnectorError, Error, together
from headrace.metrics import otlp_request
from headrace.spelling import suggest

TAGS = ("datadog", "none")
EVERY_S_MIN, EVERY_S_MAX = 1.0, 3600.0
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """`hosts`: names that requests may use, besides IP addresses and the machine's own name."""

    listen: str = "127.0.0.1:9464"
    token: str | None = None  # a secret reference
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", _texts("hosts", self.hosts))
        require_secret_reference("token", self.token)
        if not self.address.is_loopback and self.token is None:
            raise ConnectorError(
                f"Other machines can reach {self.listen!r}, so requests must have a token.",
                why="The metrics contain the names of pipelines and queries.",
                fix='Add token = "${env:METRICS_TOKEN}", and set it in Prometheus as the '
                "`authorization` of the scrape.",
                slug="metrics-token",
            )

    @property
    def address(self) -> Address:
        return parse_address("listen", self.listen)


@dataclass(frozen=True, slots=True)
class StatsdSettings:
    address: str = "127.0.0.1:8125"
    tags: str = "datadog"
    prefix: str = "headrace"
    every: str | float = "10 seconds"

    def __post_init__(self) -> None:
        parse_address("address", self.address)
        if self.tags not in TAGS:
            raise ConnectorError(
                f"Unknown tags {self.tags!r}.",
                why=f"Allowed: {', '.join(TAGS)}.",
                fix=suggest(str(self.tags), TAGS, 'Write tags = "none" for a plain StatsD server.'),
                slug="bad-option",
            )
        if not isinstance(self.prefix, str) or not re.fullmatch(r"[\w.-]{0,100}", self.prefix):
            raise ConnectorError(
                f"Invalid prefix: {self.prefix!r}.",
                why="It may contain letters, digits, dots, underscores and hyphens.",
                fix='Write prefix = "headrace".',
                slug="bad-option",
            )
        parse_every(self.every)


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    endpoint: str = "http://127.0.0.1:4318/v1/metrics"
    headers: Mapping[str, str] = field(default_factory=dict)  # values are secret references
    every: str | float = "30 seconds"

    def __post_init__(self) -> None:
        is_url = isinstance(self.endpoint, str) and (
            re.match(r"https?://[^/\s]+", self.endpoint) or secrets.is_in(self.endpoint)
        )
        if not is_url:
            raise ConnectorError(
                f"Invalid endpoint: {self.endpoint!r}.",
                why="It must be a URL that starts with http:// or https://.",
                fix='Write endpoint = "http://127.0.0.1:4318/v1/metrics".',
                slug="bad-option",
            )
        if not isinstance(self.headers, Mapping):
            raise ConnectorError(
                f"Invalid headers: {self.headers!r}.",
                fix='Write headers = { Authorization = "${env:OTLP_AUTHORIZATION}" }.',
                slug="bad-option",
            )
        for name, value in self.headers.items():
            if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", name) or not isinstance(value, str):
                raise ConnectorError(f"Invalid header {name!r}.", slug="bad-option")
            require_secret_reference(name, value)
        parse_every(self.every)
        otlp_request.require_extra()


def prometheus(settings: Settings) -> PrometheusSettings | None:
    return _build(settings, "prometheus", PrometheusSettings)


def statsd(settings: Settings) -> StatsdSettings | None:
    return _build(settings, "statsd", StatsdSettings)


def otlp(settings: Settings) -> OtlpSettings | None:
    return _build(settings, "otlp", OtlpSettings)


def check(settings: Settings) -> None:
    """Raises all problems of all tables."""
    problems = []
    for build in (prometheus, statsd, otlp):
        try:
            build(settings)
        except Error as exc:
            problems.append(exc)
    if problems:
        raise together(problems)


def parse_every(value: Any) -> float:
    seconds = parse_duration(value)
    if not EVERY_S_MIN <= seconds <= EVERY_S_MAX:
        raise ConfigError(
            f"Invalid value for every: {value!r}.",
            why="It must be between 1 second and 1 hour.",
            fix='Write every = "10 seconds".',
        )
    return seconds


def parse_address(name: str, value: object) -> Address:
    """HOST:PORT; an IPv6 address in brackets."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})", str(value))
    if found is None or not isinstance(value, str) or not 0 < int(found[3]) < 65_536:
        raise ConnectorError(
            f"Invalid {name}: {value!r}.",
            why="It must be an address and a port.",
            fix=f'Write, for example, {name} = "127.0.0.1:9464".',
            slug="bad-option",
        )
    return Address(found[1] or found[2], int(found[3]))


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ConnectorError(
            f"Invalid {name}: {value!r}.",
            why="It must be a list of strings.",
            fix=f'Write {name} = ["metrics.example.org"].',
            slug="bad-option",
        )
    return tuple(value)


def _build(settings: Settings, name: str, make: type[E]) -> E | None:
    given = settings.metrics.get(name)
    if given is None:
        return None
    where = settings.place("metrics", name)
    return build_from_fields(make, name, given, title=f"[metrics.{name}]", where=where)
