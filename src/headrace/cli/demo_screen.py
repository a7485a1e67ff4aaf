"""What a demo looks at, and where it shows it: a live terminal, or lines on stderr."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.live import Live

from headrace.cli import tables
from headrace.cli.follow import say
from headrace.demo import outputs, reach, tally, truth, view
from headrace.demo.count import Count
from headrace.demo.latency import Latency
from headrace.demo.media import Medium
from headrace.demo.places import PIPELINE, DemoPlaces
from headrace.jsonfile import write_json
from headrace.model.status import WORKING, PipelineStatus, State
from headrace.project import definitions as deployed
from headrace.project import reading, runs
from headrace.project.workspace import Workspace
from headrace.state import desired
from headrace.store.alerts import Alert

DRAW_S = 1.0
LINE_S = 10.0
LOOK_S = 1.0
DEEP_LOOK_S = 5.0  # files and tables: they need not be newer than that
_OVER = (State.STOPPED, State.FINISHED, State.NEEDS_ATTENTION)


class Watcher:
    """Owns what was seen since a deployment. `look` is cheap: again only when it is time."""

    def __init__(
        self, work: Workspace, demo: DemoPlaces, medium: Medium, version: str, rate: int
    ) -> None:
        self._work = work
        self._demo = demo
        self._medium = medium
        self._version = version
        wanted = desired.read(work.places, PIPELINE)
        self._generation = wanted.generation if wanted else 1
        self._status: PipelineStatus | None = None
        self._tally = tally.Tally()
        self._pace = tally.Pace(rate, time.monotonic())
        self._reasons = outputs.Growing(
            outputs.quarantine_folder(work.settings), outputs.reasons_in
        )
        self._history = outputs.Growing(demo.history, outputs.rows_in)
        self._beats: tuple[int, int | None] = (0, None)
        self._totals = truth.Totals()
        self._alerts: list[Alert] = []
        self._before = {alert.id for alert in outputs.alerts_of(work.places)}
        self._logins: list[tuple[int, int]] = []
        self._bytes = 0
        self._names: frozenset[str] = frozenset()
        self._looked = self._looked_deep = float("-inf")

    @property
    def state(self) -> str | None:
        return self._status.state if self._status else None

    @property
    def why(self) -> str:
        return self._status.why if self._status else "the supervisor begins"

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            status = reading.status_of(self._work, PIPELINE)
            if status is not None:
                self._status, self._tally = status, self._tally.heard(status)
        if now - self._looked_deep >= DEEP_LOOK_S:
            self._looked_deep = now
            self._look_deep(now)

    def is_over(self) -> bool:
        """Only what is said of this deployment counts, never what an earlier one has left."""
        status, run = self._status, runs.newest(self._work.places, PIPELINE)
        if status is None or status.state not in _OVER or run is None:
            return False
        is_ours = run.spec.generation >= self._generation and status.run in (None, run.name)
        return is_ours and not runs.is_open(run)

    def _look_deep(self, now: float) -> None:
        settings, demo = self._work.settings, self._demo
        self._totals = truth.totals(truth.entries(demo.truth))
        self._bytes, self._beats = self._medium.kept_bytes(), self._medium.beats()
        self._alerts = outputs.alerts_of(self._work.places)
        self._logins = outputs.live_logins(reach.result(settings, "logins"))
        for growing in (self._history, self._reasons):
            growing.update()
        behind = self._medium.behind(self._pace.rate)
        is_running = self.state in WORKING
        before, self._pace = self._pace, tally.paced(self._pace, behind, now, is_running=is_running)
        if self._pace.rate != before.rate:
            write_json(demo.control, {"rate": self._pace.rate})
            say(
                f"this machine is too slow for {before.rate} lines a second ({behind} s wait): "
                f"now {self._pace.rate}",
                colour="yellow",
            )

    def has_committed(self) -> bool:
        """Every query at least once since the demo began."""
        if not self._names:
            found = deployed.stored(self._work, self._version, self._work.profile, PIPELINE)
            self._names = frozenset(query.name for query in found.queries) if found else frozenset()
        waiting = {name for name in self._names if not self._medium.is_flowing(name)}
        return bool(self._names) and self._tally.has_committed(frozenset(waiting))

    def has_silence(self) -> bool:
        """The silent cluster was missed, in this demo and not in one before."""
        return any(a.query == "silent" and a.id not in self._before for a in self._alerts)

    def _held(self) -> dict[str, int]:
        """Rows that each output holds."""
        return {
            "history": self._history.sums.total(),
            "heartbeats": self._beats[0],
            "logins": len(self._logins),
            outputs.QUARANTINE: self._reasons.sums.total(),
            **{
                query: sum(alert.count for alert in self._alerts if alert.query == query)
                for query in ("overloaded", "silent")
            },
        }

    def seen(self, phase: str) -> view.Seen:
        return view.Seen(
            folder=str(self._demo.folder),
            phase=phase,
            status=self._status,
            totals=self._tally.with_rows_out(self._held()),
            rate=self._pace.rate,
            is_slowed=self._pace.lowered,
            lines=self._totals.lines,
            malformed=self._totals.malformed,
            input_bytes=self._bytes,
            behind=self._pace.behind,
            files=self._files(),
            logins=self._logins,
            alerts=self._alerts,
            quarantine=self._reasons.sums,
            restarts=self._status.restarts if self._status else 0,
        )

    def _files(self) -> dict[str, int]:
        beats = self._beats[1]
        found = {"history": len(self._history.seen)}
        return found if beats is None else {**found, "heartbeats": beats}

    def _latencies(self, measured: Mapping[str, Latency]) -> dict[str, Any]:
        """Where nothing was measured from outside: what the query says of itself."""
        said = {
            name: {"p50": round(total.fresh_p50_ms, 1), "p99": round(total.fresh_p99_ms, 1)}
            for name, total in self._tally.totals().items()
            if total.fresh_p50_ms is not None and total.fresh_p99_ms is not None
        }
        return said | {name: one.to_json() for name, one in measured.items()}

    def to_json(self, counted: Count, measured: Mapping[str, Latency]) -> dict[str, Any]:
        """The last line of `--json`. `files` are those that history and heartbeats hold."""
        self._look_deep(time.monotonic())
        totals = self._tally.with_rows_out(self._held())
        return {
            "lost": counted.lost,
            "doubled": counted.doubled,
            "late": counted.late,
            "malformed": counted.malformed,
            "quarantined": counted.quarantined,
            "restarts": self._status.restarts if self._status else 0,
            "repeated": counted.repeated,
            "files": sum(self._files().values()),
            "latency_ms": self._latencies(measured),
            "alerts": {"overloaded": counted.overloaded, "silent": counted.silent},
            "queries": {name: totals[name].to_json() for name in sorted(totals)},
        }


class Screen:
    """Draws every second on a terminal; elsewhere tells in a line what is new, on stderr."""

    def __init__(self, *, is_live: bool) -> None:
        self._live = Live(console=tables.console(), auto_refresh=False) if is_live else None
        self._told = float("-inf")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, seen: view.Seen, *, is_news: bool = False) -> None:
        now = time.monotonic()
        if not is_news and now - self._told < (DRAW_S if self._live else LINE_S):
            return
        self._told = now
        if self._live is not None:
            self._live.update(view.render(seen, self._live.console.height), refresh=True)
        else:
            say(view.line(seen))
