"""Reads `headrace.toml` into frozen settings. Used by every process.

`load` reports all problems of the file at once, each with its line. Secrets stay references
(`${env:X}`, `${file:PATH}`) until a driver resolves them (secrets.py).
Invariant: pydantic is imported only while a file is read, so that `--help` stays fast.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headrace import settings_schema
from headrace.errors import ConfigError
from headrace.model import dropwizard
from headrace.model.limits import (
    DrainLimits,
    HealthLimits,
    QuerySettings,
    RestartLimits,
    WatchdogLimits,
)
from headrace.model.web_settings import WebSettings
from headrace.spelling import closest

FILE = settings_schema.FILE
DEV = "dev"  # the profile that always exists
EVERY_FAILURE = "every_failure"
DEPTH_MAX = 32  # of nested tables and lists


def find_project(start: Path) -> Path:
    """The nearest parent folder with a headrace.toml, else `start` itself."""
    start = start.resolve()
    return next((f for f in (start, *start.parents) if (f / FILE).is_file()), start)


@dataclass(frozen=True)
class Settings:
    """The settings of one profile. Relative paths are resolved against the project."""

    project: Path
    profile: str
    name: str
    state: Path
    checkpoints: str
    results: str
    quarantine: str
    pipeline_globs: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    production: bool = False  # False: connectors that lose rows are allowed
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sinks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    restart: RestartLimits = field(default_factory=RestartLimits)
    watchdog: WatchdogLimits = field(default_factory=WatchdogLimits)
    drain: DrainLimits = field(default_factory=DrainLimits)
    health: HealthLimits = field(default_factory=HealthLimits)
    web: WebSettings = field(default_factory=WebSettings)
    mirror: str | None = None  # the consumer group of a query, with {pipeline} and {query} in it
    fresh_within: float | None = None
    queries: Mapping[str, QuerySettings] = field(default_factory=dict)
    notify: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    every_failure: bool = False  # [notify] every_failure: each failed run is an alert
    alerts: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by exporter
    dropwizard: Mapping[str, str] | None = None  # properties of Spark's own metrics; None: off
    pipelines: tuple[str, ...] = ()  # names that have a section [pipelines.NAME]
    text: str = field(default="", repr=False)  # of the file, to find the lines of errors
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def for_pipeline(self, name: str) -> Settings:
        """These settings with those of [pipelines.NAME] on top."""
        own = self.raw.get("pipelines", {}).get(name)
        if not own:
            return self
        raw = merge_tables({k: v for k, v in self.raw.items() if k != "queries"}, own)
        return _settings(self.project, self.profile, raw, self.text)

    @property
    def has_sql_rules(self) -> bool:
        return any("sql" in rule for rule in self.rules.values())

    def checkpoint(self, pipeline: str, query: str) -> str:
        """CHECKPOINTS/PIPELINE/QUERY/v1; with the profile before PIPELINE unless it is dev."""
        if chosen := (self.queries.get(query) or QuerySettings()).checkpoint:
            return resolve_path(self.project, chosen)
        return self._below(self.checkpoints, pipeline, query, "v1")

    def result(self, pipeline: str, query: str) -> str:
        """RESULTS/PIPELINE/QUERY/v1: the snapshots of a live table."""
        return self._below(self.results, pipeline, query, "v1")

    def quarantine_path(self, pipeline: str, node: str) -> str:
        """QUARANTINE/PIPELINE/VIEW: the records that could not be parsed."""
        return self._below(self.quarantine, pipeline, node)

    def _below(self, folder: str, *names: str) -> str:
        above = () if self.profile == DEV else (self.profile,)
        return "/".join((folder.rstrip("/"), *above, *names))

    def place(self, *keys: str) -> str:
        """`headrace.toml:LINE` of a table or setting, or of the nearest table above it."""
        return settings_schema.place(self.text, keys)


def load(project: Path, profile: str = DEV, toml: Path | None = None) -> Settings:
    """Read headrace.toml, or `toml`, a deployed copy. Without a file, all settings are defaults."""
    project = project.resolve()
    path = toml or project / FILE
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as exc:
        what = f"{path} cannot be read: {exc}"
        raise ConfigError(what, where=str(path), slug="settings-unreadable") from exc
    whole = _parse_toml(text)
    profiles = whole.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        raise ConfigError(
            "Every entry in [profiles] must be a table.",
            where=settings_schema.place(text, ["profiles"]),
            fix="Write [profiles.NAME], followed by the settings that this profile changes.",
        )
    if profile != DEV and profile not in profiles:
        known = sorted({DEV, *profiles})
        raise ConfigError(
            f"Unknown profile {profile!r}.",
            why=f"Known: {', '.join(known)}.",
            where=str(path),
            fix=f"Use --profile {closest(profile, known) or DEV}, or add [profiles.{profile}].",
            slug="unknown-profile",
        )
    raw = merge_tables(whole, profiles.get(profile, {}))
    return _settings(project, profile, raw, text)


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        line = re.search(r"at line (\d+)", str(exc))
        raise ConfigError(
            f"{FILE} is not valid TOML: {exc}",
            where=f"{FILE}:{line[1] if line else max(1, text.count(chr(10)))}",
            fix='Check that text is in quotes ("…"), that lists are in [ ], and that no table '
            "appears twice.",
            slug="toml-syntax",
        ) from exc
    except RecursionError as exc:
        raise _too_deep(text) from exc
    if _is_deeper(whole, DEPTH_MAX):
        raise _too_deep(text)
    return whole


def _is_deeper(value: Any, depth_max: int) -> bool:
    """Level by level, since recursion could overflow the stack."""
    level = [value]
    for _ in range(depth_max):
        inside = [item.values() if isinstance(item, dict) else item for item in level]
        level = [item for held in inside for item in held if isinstance(item, dict | list)]
    return bool(level)


def _too_deep(text: str) -> ConfigError:
    lines = text.splitlines()
    deepest = max(range(len(lines)), key=lambda n: sum(map(lines[n].count, "[{.")))
    return ConfigError(
        f"{FILE} nests tables or lists more than {DEPTH_MAX} levels deep.",
        why="No setting is nested that deeply. The usual cause is a generated file or a repeated "
        "bracket.",
        where=f"{FILE}:{deepest + 1}",
        fix=f"Remove the extra brackets or dots on line {deepest + 1}.",
        slug="toml-syntax",
    )


def resolve_path(project: Path, path: str) -> str:
    """An absolute path or URI; relative paths are resolved against the project."""
    if re.match(r"^[a-z][a-z0-9+.-]+:", path):
        return path
    return os.path.normpath(project / Path(path).expanduser())


def local_path(path: str | None) -> Path | None:
    """None for a path on an object store (s3a://…). As in Hadoop, a `%20` in a `file:` URI is part
    of the name."""
    if path is None:
        return None
    scheme = urlsplit(path).scheme
    if scheme == "file":
        return Path("/" + path.partition(":")[2].lstrip("/"))
    return None if scheme else Path(path)


def merge_tables(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `top` over `base`. A connector of another kind replaces the whole table: the fields of
    a folder of text files mean nothing to Kafka."""
    out = dict(base)
    for key, value in top.items():
        under = out.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            is_other = "kind" in value and value["kind"] != under.get("kind")
            kept = {k: v for k, v in under.items() if not is_other or k == "table"}
            out[key] = merge_tables(kept, value)
        else:
            out[key] = value
    return out


def _settings(project: Path, profile: str, raw: Mapping[str, Any], text: str) -> Settings:
    checked = settings_schema.validate(raw, text)
    head = checked.project
    return Settings(
        project=project,
        profile=profile,
        name=head.name or project.name,
        state=Path(resolve_path(project, head.state)),
        checkpoints=resolve_path(project, head.checkpoints),
        results=resolve_path(project, head.results),
        quarantine=resolve_path(project, head.quarantine),
        pipeline_globs=tuple(head.pipelines),
        include=tuple(head.include),
        production=profile != DEV if head.production is None else head.production,
        sources=checked.sources,
        sinks=checked.sinks,
        spark={
            k: str(v).lower() if v in (True, False) else str(v) for k, v in checked.spark.items()
        },
        restart=checked.restart,
        watchdog=checked.watchdog,
        drain=checked.drain,
        health=checked.health,
        web=_web(project, checked.web),
        mirror=_mirror(checked.lag.mirror, text),
        fresh_within=checked.fresh_within,
        queries=checked.queries,
        notify=_channels(checked.notify, text),
        every_failure=checked.notify.get(EVERY_FAILURE) is True,
        alerts=checked.alerts,
        rules=checked.rules,
        metrics={
            name: given
            for name, given in asdict(checked.metrics).items()
            if given is not None and name != "dropwizard"  # not an exporter of Headrace
        },
        dropwizard=dropwizard.parse(
            checked.metrics.dropwizard, settings_schema.place(text, ["metrics", "dropwizard"])
        ),
        pipelines=tuple(checked.pipelines),
        text=text,
        raw=raw,
    )


def _channels(given: Mapping[str, Any], text: str) -> dict[str, Mapping[str, Any]]:
    """The tables in [notify]; the only other key there is every_failure."""
    for name, value in given.items():
        if not isinstance(value, bool if name == EVERY_FAILURE else Mapping):
            raise ConfigError(
                f"Invalid value for notify.{name}: "
                f"{'a table' if isinstance(value, Mapping) else repr(value)}.",
                why="[notify] contains every_failure = true or false, and a table for each "
                "channel.",
                where=settings_schema.place(text, ["notify", name]),
                fix=f"Write [notify.{name}], followed by the settings of the channel."
                if name != EVERY_FAILURE and closest(name, [EVERY_FAILURE]) is None
                else f"Write {EVERY_FAILURE} = true under [notify].",
            )
    return {name: value for name, value in given.items() if name != EVERY_FAILURE}


def _web(project: Path, given: WebSettings) -> WebSettings:
    own = asdict(given)
    files = {n: resolve_path(project, own[n]) for n in ("certificate", "key") if own[n]}
    enabled = given.enabled and os.environ.get("HEADRACE_WEB", "").lower() not in ("0", "off")
    return WebSettings(**{**own, **files, "enabled": enabled})


def _mirror(name: str | None, text: str) -> str | None:
    """Checks that each query gets its own consumer group."""
    if not name:
        return None
    found = set(re.findall(r"\{(\w*)\}", name))
    if not {"pipeline", "query"} <= found <= {"pipeline", "query", "profile"}:
        raise ConfigError(
            f"Invalid value for lag.mirror: {name!r}.",
            why="Each query needs its own consumer group, so the name must contain {pipeline} and "
            "{query}; {profile} is optional.",
            where=settings_schema.place(text, ["lag", "mirror"]),
            fix='Write mirror = "headrace-{pipeline}-{query}".',
            slug="lag-mirror",
        )
    return name
