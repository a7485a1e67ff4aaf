"""`headrace.toml` as frozen settings. Read by every process; the file's own text is the reference.

`load` reports everything that is wrong in the file at once, each with its line. Secrets stay the
references they are (`${env:X}`, `${file:PATH}`) until a driver resolves them (references.py).
Invariant: pydantic is imported only while a file is being read, so that `--help` stays quick.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace import shapes
from headrace.errors import ConfigError
from headrace.model.limits import (
    DrainLimits,
    HealthLimits,
    QuerySettings,
    RestartLimits,
    WatchdogLimits,
)
from headrace.model.web import WebSettings
from headrace.words import near

FILE = shapes.FILE
DEV = "dev"  # the profile that always exists
DEPTH_MAX = 32  # of tables and lists in each other


def find_project(start: Path) -> Path:
    """The nearest folder upwards that holds a headrace.toml, else `start` itself."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder
    return start


@dataclass(frozen=True)
class Settings:
    """What the file says under one profile. Relative paths have been counted from the project."""

    project: Path
    profile: str
    name: str
    state: Path
    checkpoints: str
    results: str
    quarantine: str
    pipeline_globs: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    production: bool = False  # False: connectors that are not for production are allowed
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
    alerts: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by exporter
    pipelines: tuple[str, ...] = ()  # names that have a section [pipelines.NAME]
    text: str = field(default="", repr=False)  # of the file, for the lines of later errors
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def for_pipeline(self, name: str) -> Settings:
        """These settings with those of [pipelines.NAME] on top."""
        own = self.raw.get("pipelines", {}).get(name)
        if not own:
            return self
        raw = merged({k: v for k, v in self.raw.items() if k != "queries"}, own)
        return _settings(self.project, self.profile, raw, self.text)

    def checkpoint(self, pipeline: str, query: str) -> str:
        """CHECKPOINTS/PIPELINE/QUERY/v1, with the profile before it where that is not dev."""
        if chosen := (self.queries.get(query) or QuerySettings()).checkpoint:
            return counted_from(self.project, chosen)
        return self._below(self.checkpoints, pipeline, query, "v1")

    def result(self, pipeline: str, query: str) -> str:
        """RESULTS/PIPELINE/QUERY/v1: the snapshots of a live table."""
        return self._below(self.results, pipeline, query, "v1")

    def quarantined(self, pipeline: str, node: str) -> str:
        """QUARANTINE/PIPELINE/VIEW: the records that could not be used."""
        return self._below(self.quarantine, pipeline, node)

    def _below(self, folder: str, *names: str) -> str:
        above = () if self.profile == DEV else (self.profile,)
        return "/".join((folder.rstrip("/"), *above, *names))

    def place(self, *keys: str) -> str:
        """`headrace.toml:LINE` of a table or setting, as far down as it is written there."""
        return shapes.place(self.text, keys)


def load(project: Path, profile: str = DEV, toml: Path | None = None) -> Settings:
    """Read the project's headrace.toml (or another one, given as `toml`: a deployed copy).

    A project may have none: then everything is as by default."""
    project = project.resolve()
    path = toml or project / FILE
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as exc:
        what = f"{path} cannot be read: {exc}"
        raise ConfigError(what, where=str(path), slug="settings-unreadable") from exc
    whole = _parsed(text)
    profiles = whole.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        fix = "Write [profiles.NAME] and below it what differs."
        raise ConfigError(
            "profiles has to hold tables.", where=shapes.place(text, ["profiles"]), fix=fix
        )
    if profile != DEV and profile not in profiles:
        known = sorted({DEV, *profiles})
        raise ConfigError(
            f"There is no profile {profile!r}.",
            why=f"{FILE} has: {', '.join(known)}.",
            where=str(path),
            fix=f"Use --profile {near(profile, known) or DEV}, or add [profiles.{profile}].",
            slug="unknown-profile",
        )
    raw = merged(whole, profiles.get(profile, {}))
    return _settings(project, profile, raw, text)


def _parsed(text: str) -> dict[str, Any]:
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        line = re.search(r"at line (\d+)", str(exc))
        raise ConfigError(
            f"{FILE} is not valid TOML: {exc}",
            where=f"{FILE}:{line[1] if line else max(1, text.count(chr(10)))}",
            fix='Text needs quotes ("…"), lists need [ ], and each table name may stand once.',
            slug="toml-syntax",
        ) from exc
    except RecursionError as exc:
        raise _too_deep(text) from exc
    if _is_deeper(whole, DEPTH_MAX):
        raise _too_deep(text)
    return whole


def _is_deeper(value: Any, depth_max: int) -> bool:
    """Level by level: what is too deep to recurse into must not be recursed into."""
    level = [value]
    for _ in range(depth_max):
        inside = [one.values() if isinstance(one, dict) else one for one in level]
        level = [one for held in inside for one in held if isinstance(one, dict | list)]
    return bool(level)


def _too_deep(text: str) -> ConfigError:
    lines = text.splitlines()
    deepest = max(range(len(lines)), key=lambda n: sum(map(lines[n].count, "[{.")))
    return ConfigError(
        f"{FILE} nests tables or lists more than {DEPTH_MAX} deep.",
        why="No setting needs that; a generated file or a repeated bracket can look like this.",
        where=f"{FILE}:{deepest + 1}",
        fix="Remove the nesting at that line.",
        slug="toml-syntax",
    )


def counted_from(project: Path, path: str) -> str:
    """An absolute path or URI; what is relative counts from the project."""
    if re.match(r"^[a-z][a-z0-9+.-]+:", path):
        return path
    return os.path.normpath(project / Path(path).expanduser())


def merged(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`top` over `base`, table by table. A connector of another kind replaces the whole table: the
    fields of a folder of text files mean nothing to Kafka."""
    out = dict(base)
    for key, value in top.items():
        under = out.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            is_other = "kind" in value and value["kind"] != under.get("kind")
            kept = {k: v for k, v in under.items() if not is_other or k == "table"}
            out[key] = merged(kept, value)
        else:
            out[key] = value
    return out


def _settings(project: Path, profile: str, raw: Mapping[str, Any], text: str) -> Settings:
    checked = shapes.validated(raw, text)
    head = checked.project
    return Settings(
        project=project,
        profile=profile,
        name=head.name or project.name,
        state=Path(counted_from(project, head.state)),
        checkpoints=counted_from(project, head.checkpoints),
        results=counted_from(project, head.results),
        quarantine=counted_from(project, head.quarantine),
        pipeline_globs=tuple(head.pipelines),
        include=tuple(head.include),
        production=profile != DEV if head.production is None else head.production,
        sources=checked.sources,
        sinks=checked.sinks,
        spark={
            k: str(v).lower() if v in (True, False) else str(v) for k, v in checked.spark.items()
        },
        restart=RestartLimits(**asdict(checked.restart)),
        watchdog=WatchdogLimits(**asdict(checked.watchdog)),
        drain=DrainLimits(**asdict(checked.drain)),
        health=HealthLimits(**asdict(checked.health)),
        web=_web(project, checked.web),
        mirror=_mirror(checked.lag.mirror, text),
        fresh_within=checked.fresh_within,
        queries={n: QuerySettings(**asdict(query)) for n, query in checked.queries.items()},
        notify=checked.notify,
        alerts=checked.alerts,
        metrics={
            name: given for name, given in asdict(checked.metrics).items() if given is not None
        },
        pipelines=tuple(checked.pipelines),
        text=text,
        raw=raw,
    )


def _web(project: Path, given: WebSettings) -> WebSettings:
    own = asdict(given)
    files = {n: counted_from(project, own[n]) for n in ("certificate", "key") if own[n]}
    enabled = given.enabled and os.environ.get("HEADRACE_WEB", "").lower() not in ("0", "off")
    return WebSettings(**{**own, **files, "enabled": enabled})


def _mirror(name: str | None, text: str) -> str | None:
    """Two queries in one group would move each other."""
    if not name:
        return None
    found = set(re.findall(r"\{(\w*)\}", name))
    if not {"pipeline", "query"} <= found <= {"pipeline", "query", "profile"}:
        raise ConfigError(
            f"lag.mirror cannot be {name!r}.",
            why="It names the consumer group of each query, so {pipeline} and {query} have to be "
            "in it; {profile} may.",
            where=shapes.place(text, ["lag", "mirror"]),
            fix='Write mirror = "headrace-{pipeline}-{query}".',
            slug="lag-mirror",
        )
    return name
