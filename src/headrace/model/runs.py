"""A run: one driver process from its start to its end, and the files that describe it.

`.headrace/runs/RUN/` holds `run.json` (RunSpec, written by the supervisor before the start),
`process.json` (Process, by the driver first of all), `events.jsonl`, `driver.log` (its output),
`exit.json` (Exit, by the driver last of all; a driver without one has vanished).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

_NAME = re.compile(r"(?P<pipeline>.+)-(?P<second>\d{8}T\d{6})-\w+")


class Jsonable:
    """Dataclass to plain JSON types and back; unknown keys of a newer writer are ignored."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        known = _field_names(cls)  # type: ignore[arg-type]
        return cls(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in body.items() if k in known}
        )


@functools.cache
def _field_names(cls: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(cls))


class RunName(NamedTuple):
    pipeline: str
    second: str  # YYYYMMDDTHHMMSS, UTC: sorts by time


def run_name(pipeline: str, at: float, random: str) -> str:
    """PIPELINE-YYYYMMDDTHHMMSS-RANDOM; also the name of the run's folder."""
    second = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{pipeline}-{second}-{random}"


def parse_run_name(run: str) -> RunName | None:
    """None if it is not the name of a run: folders may hold anything."""
    found = _NAME.fullmatch(run)
    return RunName(found["pipeline"], found["second"]) if found else None


def pipeline_of(run: str) -> str:
    """The pipeline of a run; if it is not the name of a run, the name itself."""
    found = parse_run_name(run)
    return found.pipeline if found else run


class Wanted(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    UNKNOWN = "unknown"  # the record was damaged: nothing is started until a person decides


@dataclass(frozen=True, slots=True)
class Desired(Jsonable):
    """`.headrace/desired/PIPELINE.json`: what should run. Only the supervisor writes it."""

    pipeline: str
    wanted: str  # Wanted
    version: str  # the code is .headrace/versions/VERSION/files; "" if unknown
    profile: str
    file: str  # the pipeline's file or script, relative to the project
    script: bool = False
    args: tuple[str, ...] = ()  # a script's own arguments
    generation: int = 1  # rises with every change; a run of an older one is drained and replaced
    dev: bool = False  # deployed by `run`: belongs to a working tree, not to a release
    session: str = ""  # of `run`: the request that deployed it
    former: Mapping[str, Any] | None = None  # Desired.to_json(): what comes back when `run` ends
    previous: tuple[str, ...] = ()  # earlier versions, newest last, for `rollback`
    accepted_gaps: tuple[Mapping[str, Any], ...] | None = None  # Gap.to_json(): left out, once
    by: str = ""
    at: float = 0.0
    request: str = ""  # the last one that changed it: a request is never served twice


@dataclass(frozen=True, slots=True)
class RunSpec(Jsonable):
    """`run.json`: everything a driver needs to know; it takes nothing else from its parent."""

    run: str
    pipeline: str
    project: str  # absolute; the driver's working folder
    state: str  # absolute; .headrace
    version: str
    profile: str
    file: str  # relative to the project
    script: bool = False
    args: tuple[str, ...] = ()
    generation: int = 1
    attempt: int = 1
    restarts: int = 0  # of this generation, before this run
    at: float = 0.0
    accepted_gaps: tuple[Mapping[str, Any], ...] | None = None  # deleted records are skipped
    define: tuple[str, ...] = ()  # definition mode: files to define, nothing is started
    question: Mapping[str, Any] = field(default_factory=dict)  # one SQL query, nothing else

    @property
    def accepts_gap(self) -> bool:
        """Even if no gap was shown: Spark may find gaps that a look at the topics does not."""
        return self.accepted_gaps is not None


@dataclass(frozen=True, slots=True)
class Process(Jsonable):
    """Identifies a process: the kernel reuses pids."""

    pid: int
    started: float  # the process's own start time, from the kernel
    boot: str  # boot id; pids and start times mean nothing across a reboot


class Ending(StrEnum):
    FINISHED = "finished"  # all queries were available-now and are done
    DRAINED = "drained"  # asked to stop; every query ended at a batch boundary
    CUT = "cut"  # asked to stop; at least one query did not reach a boundary in time
    FAILED = "failed"  # a query or the user's code failed
    REFUSED = "refused"  # did not start: definition, checkpoint, machine
    FENCED = "fenced"  # a newer run owns the checkpoint
    VANISHED = "vanished"  # no exit.json: killed, or the machine went down
    STALLED = "stalled"  # ended by the watchdog


BAD_ENDINGS = (
    Ending.FAILED, Ending.REFUSED, Ending.FENCED, Ending.VANISHED, Ending.STALLED, Ending.CUT
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exit(Jsonable):
    """`exit.json`: how a run ended, in a form that decisions and people can use."""

    ending: str  # Ending
    code: int
    at: float
    error: Mapping[str, Any] | None = None  # errors.Error.as_dict()
    problems: tuple[Mapping[str, Any], ...] = ()  # more of them, for Problems
    query: str | None = None  # the query that failed first
    batch: int | None = None  # the batch it failed in
    kind: str | None = None  # failures: retry | retry-then-human | human | data | unknown
    retries: int | None = None  # of kind retry-then-human: how many
    failure: str | None = None  # slug of the catalogue's entry
    fingerprint: str | None = None  # same failure, same fingerprint
    trace: str | None = None  # path of the full trace
    queries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name: {batch, how}
    asked: str = ""  # why the supervisor ended it, if it did

    @property
    def all_problems(self) -> tuple[Mapping[str, Any], ...]:
        return self.problems or ((self.error,) if self.error else ())


@dataclass(frozen=True, slots=True)
class Orders(Jsonable):
    """`runs/RUN/orders.json`: the supervisor's orders to a run, with times. Written before it acts,
    so that its successor knows what it intended."""

    drain_at: float | None = None
    drain_reason: str = ""
    wants_cut: bool = False
    cut_at: float | None = None
    kill_at: float | None = None
    kill_reason: str = ""
    by_watchdog: bool = False
    dumped_at: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """From its folder, or from the history. The history does not know its process, and of a run
    whose start it missed only the name, the pipeline and the end."""

    spec: RunSpec
    process: Process | None = None
    exit: Exit | None = None  # of a vanished one: as the supervisor concluded

    @property
    def name(self) -> str:
        return self.spec.run

    @property
    def started_at(self) -> float | None:
        return self.spec.at or None

    @property
    def ended_at(self) -> float | None:
        return self.exit.at if self.exit else None

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.name,
            "pipeline": self.spec.pipeline,
            "version": self.spec.version,
            "profile": self.spec.profile,
            "attempt": self.spec.attempt,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "ending": self.exit.ending if self.exit else None,
            "code": self.exit.code if self.exit else None,
            "exit": self.exit.to_json() if self.exit else {},
        }


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that is over, with the facts from its events that decisions need."""

    spec: RunSpec
    exit: Exit
    ended_at: float
    lived_s: float = 0.0
    has_worked: bool = False  # every query committed or was idle
    committed: Mapping[str, int] = field(default_factory=dict)  # query: batches
