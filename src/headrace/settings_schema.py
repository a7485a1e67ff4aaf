"""The schema of `headrace.toml` as dataclasses, and its validation with line numbers.

Used by `config` alone. Invariant: pydantic is imported only while a file is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from headrace.durations import parse_duration
from headrace.errors import ConfigError, Error, Problems
from headrace.model.limits import (
    DrainLimits,
    HealthLimits,
    QuerySettings,
    RestartLimits,
    WatchdogLimits,
)
from headrace.model.web_settings import WebSettings
from headrace.spelling import suggest

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FILE = "headrace.toml"
# Tables with keys of the user's choice.
_FREE = ("sources", "sinks", "notify", "alerts", "metrics", "rules", "spark")


def validate(raw: Mapping[str, Any], text: str) -> File:
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(_in_seconds(raw))
    except ValidationError as exc:
        problems = [_problem(dict(error), text) for error in exc.errors()]
        # Union types report one problem per member: keep one per place.
        unique = list({(p.code, p.what): p for p in problems}.values())
        raise (unique[0] if len(unique) == 1 else Problems(unique)) from exc


@cache
def _adapter() -> TypeAdapter[File]:
    """Cached: some processes read the settings every few seconds."""
    from pydantic import ConfigDict, TypeAdapter, with_config

    for table in (File, _Pipeline, _Project, _Lag, _Metrics, WebSettings, QuerySettings, *_LIMITS):
        with_config(ConfigDict(extra="forbid"))(table)
    return TypeAdapter(File)


def _in_seconds(raw: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """Durations as numbers, "unlimited" as None. Invalid values stay, to be reported later."""
    out: dict[str, Any] = {}
    for key, value in raw.items():
        if isinstance(value, Mapping) and inside not in _FREE and key not in _FREE:
            value = _in_seconds(value, key)
        elif isinstance(value, str | int | float) and _is_duration(key) and inside not in _FREE:
            try:
                value = parse_duration(value)
            except ConfigError:
                # As text, because -1 and true would pass as numbers.
                value = value if isinstance(value, str) else f"{value} s"
        elif (inside, key, value) == ("restart", "retries", "unlimited"):
            value = None
        out[key] = value
    return out


def _is_duration(key: str) -> bool:
    return key in ("every", "fresh_within") or re.search(r"_s(_min|_max)?$", key) is not None


def _problem(error: dict[str, Any], text: str) -> Error:
    keys = _written_keys(error["loc"])
    name, where = ".".join(keys), place(text, keys)
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        allowed = _allowed_keys(keys[:-1])
        table = f"[{'.'.join(keys[:-1])}]" if keys[:-1] else FILE
        return ConfigError(
            f"Unknown setting {keys[-1]!r} in {table}.",
            why=f"Allowed: {', '.join(allowed)}.",
            where=where,
            fix=suggest(keys[-1], allowed, "Remove it."),
            slug="unknown-setting",
        )
    value, why = error.get("input"), error["msg"]
    if _is_duration(keys[-1]):
        why = 'It must be a duration, such as "10 seconds", "500ms", "1 minute" or 2.5'
    elif keys[-1] == "retries":
        why = 'It must be a whole number or "unlimited"'
    what = f"Invalid value for {name}: {'a table' if isinstance(value, Mapping) else repr(value)}."
    fix = f"See `{name}` in docs/reference/settings.md."
    return ConfigError(what, why=f"{why}.", where=where, fix=fix)


def _written_keys(loc: tuple[Any, ...]) -> tuple[str, ...]:
    """The keys as in the file: pydantic adds the branch of a union and list positions."""
    added = ("str", "int", "float", "bool")
    return tuple(k for k in loc if isinstance(k, str) and k not in added) or ("",)


def _allowed_keys(keys: tuple[str, ...]) -> list[str]:
    """Names of the settings in the table `keys`."""
    shape: Any = File
    for key in keys:
        hints = get_type_hints(shape) if is_dataclass(shape) else {}
        shape = hints[key] if key in hints else (get_args(shape) or (None, None))[-1]
    return sorted(get_type_hints(shape)) if is_dataclass(shape) else []


def place(text: str, keys: tuple[str, ...] | list[str]) -> str:
    """The line of `keys` in the file, or of the nearest table above it."""
    best, depth, table = 0, 0, ()  # type: tuple[int, int, tuple[str, ...]]
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(#.*)?$", line):
            here = table = _split(header[1])
        elif setting := re.match(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\.[\w\"'-]+)*)\s*=", line):
            here = table + _split(setting[1])
        else:
            continue
        if here[:1] == ("profiles",):
            here = here[2:]
        same = min(len(here), len(keys))
        if same > depth and here[:same] == tuple(keys[:same]):
            best, depth = number, same
    return f"{FILE}:{best}" if best else FILE


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(p.strip(" \"'") for p in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted))


_LIMITS = (RestartLimits, WatchdogLimits, DrainLimits, HealthLimits)


@dataclass(frozen=True)
class _Project:
    name: str = ""
    state: str = ".headrace"
    checkpoints: str = "checkpoints"
    results: str = "results"
    quarantine: str = "quarantine"
    pipelines: list[str] = field(default_factory=list)
    include: list[str] = field(default_factory=list)
    production: bool | None = None


@dataclass(frozen=True)
class _Lag:
    mirror: str | None = None


@dataclass(frozen=True)
class _Metrics:
    kafka: dict[str, Any] | None = None
    dropwizard: Any = None  # true, or properties; `model/dropwizard` checks them
    prometheus: dict[str, Any] | None = None
    statsd: dict[str, Any] | None = None
    otlp: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Pipeline:
    """Settings that a pipeline can override."""

    spark: dict[str, str | bool | int | float] = field(default_factory=dict)
    restart: RestartLimits = field(default_factory=RestartLimits)
    watchdog: WatchdogLimits = field(default_factory=WatchdogLimits)
    drain: DrainLimits = field(default_factory=DrainLimits)
    health: HealthLimits = field(default_factory=HealthLimits)
    fresh_within: float | None = None
    queries: dict[str, QuerySettings] = field(default_factory=dict)


@dataclass(frozen=True)
class File(_Pipeline):
    """The whole file. `queries` at the top exists only after a pipeline's section is merged."""

    project: _Project = field(default_factory=_Project)
    web: WebSettings = field(default_factory=WebSettings)
    lag: _Lag = field(default_factory=_Lag)
    metrics: _Metrics = field(default_factory=_Metrics)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    sinks: dict[str, dict[str, Any]] = field(default_factory=dict)
    notify: dict[str, Any] = field(default_factory=dict)  # every_failure, and tables: see config
    alerts: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    pipelines: dict[str, _Pipeline] = field(default_factory=dict)
