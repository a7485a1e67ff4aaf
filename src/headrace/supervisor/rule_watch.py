"""Evaluates the rules of alerts, and opens and resolves alerts.

A pipeline is evaluated every few seconds, and at once when its state changes. Invariants: rules
never affect a pipeline; while headrace.toml is invalid, the last valid rules apply; nothing is
evaluated before all events of a pipeline's last run are read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.alerts import engine
from headrace.alerts.rules import metrics, outputs, rule_settings, table
from headrace.alerts.rules.windows import Samples
from headrace.config import Settings
from headrace.errors import Error
from headrace.model.lag import QueryLag
from headrace.model.pipeline import Definition
from headrace.model.rules import About, Facts, PipelineFacts, ProjectFacts, Rule, SqlResult
from headrace.model.runs import Desired
from headrace.model.state_paths import StatePaths
from headrace.model.status import PipelineStatus
from headrace.state import definitions, lag, sql_rules
from headrace.supervisor import pipeline_status, rule_facts
from headrace.supervisor.file_lag import FileLagMonitor
from headrace.supervisor.host_facts import HostMonitor
from headrace.supervisor.pipeline_keeper import Keeper
from headrace.supervisor.sidecars import LiveSettings
from headrace.supervisor.store_writer import StoreWriter

logger = logging.getLogger(__name__)

EVERY_S = 5.0
FILES_S = 5.0  # how often files of the relay are read
SETTINGS_S = 2.0


class RuleWatch:
    """Owns the memory of the engine: since when conditions have held."""

    def __init__(
        self,
        settings: Settings,
        places: StatePaths,
        history: StoreWriter,
        wall: Callable[[], float],
    ) -> None:
        self._places = places
        self._history = history
        self._wall = wall
        self._project = str(settings.project)
        self._settings = LiveSettings(settings)
        self._of: Settings | None = None  # the settings that the rules are from
        self._rules: Mapping[str, Rule] = table.RULES
        self._settings_due = 0.0
        self._memory: dict[str, engine.Remembered] = {}
        self._seen: dict[str, tuple[float, object]] = {}  # by pipeline: when due, and its state
        self._samples = Samples()
        self._host = HostMonitor(settings)
        self._files = _RelayFiles(places)
        self._definitions = _Definitions(places, self._project)
        self._file_lag = FileLagMonitor()
        self._needs_files = False
        self._open: dict[str, dict[str, str]] = {}
        self._open_of: Mapping[str, str] | None = None

    def watch(self, keeper: Keeper, status: PipelineStatus, now: float) -> None:
        """One pipeline; cheap unless it is due or its state has changed."""
        state = _state_of(keeper, status)
        due, known = self._seen.get(keeper.name, (0.0, None))
        if now < due and state == known:
            return
        self._seen[keeper.name] = (now + EVERY_S, state)
        facts = self._facts(keeper, status, now)
        self._sample(facts, now)
        windows = self._samples.windows(keeper.name, now)
        self._apply(keeper.name, replace(facts, windows=windows), now)

    def watch_project(self, pipelines: Iterable[str], now: float) -> None:
        """What all pipelines share, and the alerts of pipelines that no longer exist."""
        self._read_settings(now)
        due, _ = self._seen.get("", (0.0, None))
        if now < due:
            return
        self._seen[""] = (now + EVERY_S, None)
        self._host.measure(now)
        facts = ProjectFacts(
            at=self._wall(),
            disks=self._host.disks,
            own_bytes=self._host.own_bytes,
            own_parts=self._host.own_parts,
            sql=self._files.sql(now),
        )
        self._sample(facts, now)
        self._apply("", replace(facts, windows=self._samples.windows("", now)), now)
        open_ = self._history.open_rules(now)
        for key in engine.over(open_ or {}, pipelines):
            self._history.resolve_alert(key, self._wall(), now)

    def _facts(self, keeper: Keeper, status: PipelineStatus, now: float) -> PipelineFacts:
        at = self._wall()
        desired = keeper.desired
        if rule_facts.is_over(desired, status):
            return PipelineFacts(status.name, at, status.state, is_live=False, is_over=True)
        lags = {
            query: one.as_of(at)
            for (pipeline, query), one in self._files.lags(now).get(status.name, {}).items()
        }
        around = rule_facts.Around(
            lags=lags,
            definition=self._definitions.read(desired),
            outputs=self._definitions.outputs(desired.pipeline),
            memory_max=self._host.memory_max,
            files=self._waiting_files(desired.pipeline, now),
        )
        situation = keeper.situation((), is_going_down=False)
        stalls = pipeline_status.subject_of(keeper, now).stalls
        run = rule_facts.run_facts(situation, keeper.verdict, stalls, now, at)
        return rule_facts.pipeline_facts(status, run, situation.live, around, at)

    def _waiting_files(self, pipeline: str, now: float) -> dict[str, dict[str, float]]:
        """By query; measured only if a rule needs it."""
        if not self._needs_files:
            return {}
        found = self._file_lag.read(self._definitions.checkpoints(), now)
        return {query: numbers for (name, query), numbers in found.items() if name == pipeline}

    def _sample(self, facts: Facts, now: float) -> None:
        """Records the metrics that a rule averages."""
        is_pipeline = isinstance(facts, PipelineFacts)
        for name, window_s in self._samples.needed:
            metric = metrics.METRICS[name]
            if (metric.about is not About.PROJECT) != is_pipeline:
                continue
            if not isinstance(facts, PipelineFacts):
                self._samples.add(("", None, name, window_s), now, metric.read(facts, None))
            elif metric.about is About.PIPELINE:
                value = metric.read(facts, None)
                self._samples.add((facts.name, None, name, window_s), now, value)
            else:
                for query in facts.queries:
                    value = metric.read(facts, query)
                    self._samples.add((facts.name, query.name, name, window_s), now, value)

    def _apply(self, subject: str, facts: Facts, now: float) -> None:
        open_ = self._history.open_rules(now)
        if open_ is None:
            return  # alerts.db cannot be read: an open alert could be opened twice
        if open_ is not self._open_of:
            self._open, self._open_of = dict(engine.by_pipeline(open_)), open_
        mine = self._open.get(subject, {})
        seen = engine.evaluate(self._rules, facts)
        memory = self._memory.get(subject, engine.Remembered())
        changes = engine.decide(seen, self._rules, mine, memory, now)
        self._memory[subject] = changes.memory
        at = self._wall()
        for key in changes.resolved:
            self._history.resolve_alert(key, at, now)
        for alert in changes.opened:
            self._history.open_alert(alert, at, now)

    def _read_settings(self, now: float) -> None:
        if now < self._settings_due:
            return
        self._settings_due = now + SETTINGS_S
        settings = self._settings.read()
        if settings is self._of:
            return
        self._of = settings
        try:
            self._rules = rule_settings.build(settings)
        except Error as exc:
            logger.error("headrace.toml has invalid rules, so the last valid ones apply: %s", exc)
            return
        self._needs_files = any(map(_needs_files, self._rules.values()))
        self._samples.need(w for rule in self._rules.values() if rule.enabled for w in rule.windows)


def _needs_files(rule: Rule) -> bool:
    named = ("lag_files", "lag_bytes")
    has_limit = rule.name == "lag" and not rule.values.keys().isdisjoint(("files", "bytes"))
    return rule.enabled and (has_limit or any(name in rule.when for name in named))


def _state_of(keeper: Keeper, status: PipelineStatus) -> object:
    """Whatever has to be noticed at once."""
    desired, past = keeper.desired, keeper.past
    last = past[-1].spec.run if past else ""
    queries = tuple(query.state for query in status.queries)
    kind = type(keeper.verdict[0]) if keeper.verdict else None
    return (
        status.state,
        status.run,
        last,
        len(past),
        desired.wanted,
        desired.generation,
        kind,
        queries,
    )


class _RelayFiles:
    """What the relay has written, read again only if it has changed."""

    def __init__(self, places: StatePaths) -> None:
        self._places = places
        self._lags: dict[str, dict[tuple[str, str], QueryLag]] = {}
        self._sql: dict[str, SqlResult] = {}
        self._known: dict[Path, tuple[float, tuple[int, int]]] = {}

    def lags(self, now: float) -> Mapping[str, Mapping[tuple[str, str], QueryLag]]:
        if self._has_changed(self._places.lag, now):
            found: dict[str, dict[tuple[str, str], QueryLag]] = {}
            for name, one in lag.read(self._places).items():
                found.setdefault(one.pipeline, {})[name] = one
            self._lags = found
        return self._lags

    def sql(self, now: float) -> Mapping[str, SqlResult]:
        if self._has_changed(self._places.sql_rules, now):
            self._sql = sql_rules.read(self._places)
        return self._sql

    def _has_changed(self, path: Path, now: float) -> bool:
        due, before = self._known.get(path, (0.0, (-1, -1)))
        if now < due:
            return False
        try:
            stats = path.stat()
            stamp = (stats.st_mtime_ns, stats.st_size)
        except OSError:
            stamp = (0, 0)
        self._known[path] = (now + FILES_S, stamp)
        return stamp != before


class _Definitions:
    """Definitions of deployed versions, which never change once written, and their outputs."""

    def __init__(self, places: StatePaths, project: str) -> None:
        self._places = places
        self._project = project
        self._known: dict[str, tuple[tuple[Any, ...], Definition]] = {}
        self._outputs: dict[str, dict[str, tuple[str, ...]]] | None = None

    def read(self, desired: Desired) -> Definition | None:
        name, version = desired.pipeline, (desired.version, desired.profile)
        known = self._known.get(name)
        if known is None or known[0] != version:
            found = definitions.read(self._places, *version, name)
            if found is None:
                return None
            self._known[name], self._outputs = (version, found), None
        return self._known[name][1]

    def checkpoints(self) -> dict[tuple[str, str], str]:
        return {
            (name, query.name): query.checkpoint
            for name, (_, definition) in self._known.items()
            for query in definition.queries
            if query.checkpoint
        }

    def outputs(self, pipeline: str) -> Mapping[str, tuple[str, ...]]:
        if self._outputs is None:
            known = (definition for _, definition in self._known.values())
            self._outputs = outputs.affected(known, self._project)
        return self._outputs.get(pipeline, {})
