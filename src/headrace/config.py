"""`headrace.toml` as frozen settings. Read by every process; the file's own text is the reference.

`load` reports everything that is wrong in the file at once, each with its line. Secrets stay the
references they are (`${env:X}`, `${file:PATH}`) until a driver resolves them (references.py).
Invariant: pydantic is imported only while a file is being read, so that `--help` stays quick.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from headrace.errors import ConfigError, Error, Problems
from headrace.model.limits import DrainLimits, RestartLimits, WatchdogLimits
from headrace.model.web import WebSettings

FILE = "headrace.toml"
DEV = "dev"  # the profile that always exists

_UNITS = {
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_FREE = ("sources", "sinks", "notify", "alerts", "spark")  # tables whose keys are not ours


def parse_duration(value: object) -> float:
    """Seconds of "10 seconds", "30s", "1 minute 30 seconds", "500ms", or of a number of seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if isinstance(value, str):
        parts, end = [], 0
        while match := _PART.match(value, end):
            parts.append((float(match[1]), match[2].lower()))
            end = match.end()
        if parts and end == len(value) and all(unit in _UNITS for _, unit in parts):
            return sum(amount * _UNITS[unit] for amount, unit in parts)
    raise ConfigError(
        f"{value!r} is not a length of time.",
        why="It has to be a number of seconds, or numbers with units: ms, seconds, minutes, hours, "
        "days.",
        fix='Write it like "10 seconds", "500ms", "1 minute" or 2.5.',
        slug="bad-duration",
    )


def near(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that was probably meant."""
    by_lower = {a.lower(): a for a in allowed}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def find_project(start: Path) -> Path:
    """The nearest folder upwards that holds a headrace.toml, else `start` itself."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder
    return start


@dataclass(frozen=True, slots=True)
class QuerySettings:
    every: float | None = None  # seconds; wins over the definition's trigger
    checkpoint: str | None = None
    fresh_within: float | None = None  # seconds


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
    web: WebSettings = field(default_factory=WebSettings)
    fresh_within: float | None = None
    queries: Mapping[str, QuerySettings] = field(default_factory=dict)
    notify: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    alerts: Mapping[str, Any] = field(default_factory=dict)
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
        return _place(self.text, keys)


def load(project: Path, profile: str = DEV, toml: Path | None = None) -> Settings:
    """Read the project's headrace.toml (or another one, given as `toml`: a deployed copy).

    A project may have none: then everything is as by default."""
    project = project.resolve()
    path = toml or project / FILE
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as exc:
        what = f"{path} cannot be read: {exc}"
        raise ConfigError(what, where=str(path), slug="settings-unreadable") from exc
    except tomllib.TOMLDecodeError as exc:
        line = re.search(r"at line (\d+)", str(exc))
        raise ConfigError(
            f"{FILE} is not valid TOML: {exc}",
            where=f"{FILE}:{line[1] if line else max(1, text.count(chr(10)))}",
            fix='Text needs quotes ("…"), lists need [ ], and each table name may stand once.',
            slug="toml-syntax",
        ) from exc
    profiles = whole.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        fix = "Write [profiles.NAME] and below it what differs."
        raise ConfigError("profiles has to hold tables.", where=_place(text, ["profiles"]), fix=fix)
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
    checked = _validated(raw, text)
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
        web=_web(project, checked.web),
        fresh_within=checked.fresh_within,
        queries={n: QuerySettings(**asdict(query)) for n, query in checked.queries.items()},
        notify=checked.notify,
        alerts=checked.alerts,
        pipelines=tuple(checked.pipelines),
        text=text,
        raw=raw,
    )


def _web(project: Path, given: WebSettings) -> WebSettings:
    own = asdict(given)
    files = {n: counted_from(project, own[n]) for n in ("certificate", "key") if own[n]}
    enabled = given.enabled and os.environ.get("HEADRACE_WEB", "").lower() not in ("0", "off")
    return WebSettings(**{**own, **files, "enabled": enabled})


def _validated(raw: Mapping[str, Any], text: str) -> _File:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(_File).validate_python(_in_seconds(raw))
    except ValidationError as exc:
        problems = [_problem(dict(one), text) for one in exc.errors()]
        # Union types report one problem for each member: one for a place is enough.
        unique = list({(p.code, p.what): p for p in problems}.values())
        raise (unique[0] if len(unique) == 1 else Problems(unique)) from exc


def _in_seconds(raw: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """Lengths of time as numbers, "unlimited" as none. What cannot be read stays, to be told."""
    out: dict[str, Any] = {}
    for key, value in raw.items():
        if isinstance(value, Mapping) and inside not in _FREE and key not in _FREE:
            value = _in_seconds(value, key)
        elif isinstance(value, str | int | float) and _is_duration(key) and inside not in _FREE:
            try:
                value = parse_duration(value)
            except ConfigError:
                value = (
                    value if isinstance(value, str) else f"{value} s"
                )  # not a number: -1 and true would pass for one
        elif (inside, key, value) == ("restart", "retries", "unlimited"):
            value = None
        out[key] = value
    return out


def _is_duration(key: str) -> bool:
    return key in ("every", "fresh_within") or re.search(r"_s(_min|_max)?$", key) is not None


def _problem(one: dict[str, Any], text: str) -> Error:
    keys = _written_keys(one["loc"])
    name, where = ".".join(keys), _place(text, keys)
    if one["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        allowed = _allowed(keys[:-1])
        meant = near(keys[-1], allowed)
        table = f"[{'.'.join(keys[:-1])}]" if keys[:-1] else FILE
        return ConfigError(
            f"{table} has no setting {keys[-1]!r}.",
            why=f"Known there: {', '.join(allowed)}.",
            where=where,
            fix=f"Did you mean {meant!r}?" if meant else "Remove it.",
            slug="unknown-setting",
        )
    value, why = one.get("input"), one["msg"]
    if _is_duration(keys[-1]):
        why = 'It is a length of time: write it like "10 seconds", "500ms", "1 minute" or 2.5'
    elif keys[-1] == "retries":
        why = 'It is a whole number, or "unlimited"'
    what = f"{name} cannot be {'a table' if isinstance(value, Mapping) else repr(value)}."
    fix = f"See `{name}` in docs/reference/settings.md."
    return ConfigError(what, why=f"{why}.", where=where, fix=fix)


def _written_keys(loc: tuple[Any, ...]) -> tuple[str, ...]:
    """The keys as the file has them: pydantic adds the branch of a union and list positions."""
    added = ("str", "int", "float", "bool")
    return tuple(k for k in loc if isinstance(k, str) and k not in added) or ("",)


def _allowed(keys: tuple[str, ...]) -> list[str]:
    """Names of the settings of the table `keys`, found in the shapes below."""
    shape: Any = _File
    for key in keys:
        hints = get_type_hints(shape) if is_dataclass(shape) else {}
        shape = hints[key] if key in hints else (get_args(shape) or (None, None))[-1]
    return sorted(get_type_hints(shape)) if is_dataclass(shape) else []


def _place(text: str, keys: tuple[str, ...] | list[str]) -> str:
    """The line of `keys` in the file, or of the nearest table above it. TOML parsers keep none."""
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


_STRICT = {"extra": "forbid"}


@dataclass(frozen=True)
class _Project:
    __pydantic_config__ = _STRICT
    name: str = ""
    state: str = ".headrace"
    checkpoints: str = "checkpoints"
    results: str = "results"
    quarantine: str = "quarantine"
    pipelines: list[str] = field(default_factory=list)
    include: list[str] = field(default_factory=list)
    production: bool | None = None


@dataclass(frozen=True)
class _Restart(RestartLimits):
    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class _Watchdog(WatchdogLimits):
    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class _Drain(DrainLimits):
    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class _Web(WebSettings):
    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class _Query(QuerySettings):
    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class _Pipeline:
    """What one pipeline may have of its own."""

    __pydantic_config__ = _STRICT
    spark: dict[str, str | bool | int | float] = field(default_factory=dict)
    restart: _Restart = field(default_factory=_Restart)
    watchdog: _Watchdog = field(default_factory=_Watchdog)
    drain: _Drain = field(default_factory=_Drain)
    fresh_within: float | None = None
    queries: dict[str, _Query] = field(default_factory=dict)


@dataclass(frozen=True)
class _File(_Pipeline):
    """The whole file. `queries` at the top exists only after a pipeline's section was laid over."""

    __pydantic_config__ = _STRICT
    project: _Project = field(default_factory=_Project)
    web: _Web = field(default_factory=_Web)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    sinks: dict[str, dict[str, Any]] = field(default_factory=dict)
    notify: dict[str, dict[str, Any]] = field(default_factory=dict)
    alerts: dict[str, Any] = field(default_factory=dict)
    pipelines: dict[str, _Pipeline] = field(default_factory=dict)
