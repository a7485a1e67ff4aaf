"""Watches a demo and shows it: on a live terminal, or in lines on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from rich.live import Live

from headrace.cli import output
from headrace.cli.follow import say
from headrace.demo import input_reader, outputs, terminal_view
from headrace.demo import run_totals as demo_totals
from headrace.demo.kafka_transport import Transport
from headrace.demo.latency import Latency
from headrace.demo.loss_count import Count
from headrace.demo.paths import PIPELINE, DemoPaths
from headrace.json_file import write_json
from headrace.model.status import OVER, WORKING, PipelineStatus
from headrace.project import runs
from headrace.project import status as project_status
from headrace.project.workspace import Workspace
from headrace.state import definitions as deployed
from headrace.state import desired

DRAW_S = 1.0
LINE_S = 10.0
LOOK_S = 1.0
DEEP_LOOK_S = 5.0  # for files and tables


class Watcher:
    """Collects what happened since a deployment. `look` does nothing until it is due again."""

    def __init__(
        self, work: Workspace, demo: DemoPaths, transport: Transport, version: str, rate: int
    ) -> None:
        self._work = work
        self._demo = demo
        self._transport = transport
        self._version = version
        wanted = desired.read(work.places, PIPELINE)
        self._generation = wanted.generation if wanted else 1
        self._status: PipelineStatus | None = None
        self._tally = demo_totals.RunTotals()
        self._pace = demo_totals.Pace(rate, time.monotonic())
        self._reasons = outputs.GrowingOutput(
            outputs.quarantine_folder(work.settings), outputs.reasons_in
        )
        self._history = outputs.GrowingOutput(demo.history, outputs.rows_in)
        self._view = terminal_view.ViewState(folder=str(demo.folder), phase="", rate=rate)
        self._rows: dict[str, int] = {}  # by output
        self._before = {alert.id for alert in outputs.alerts_of(work.places)}
        self._names: frozenset[str] = frozenset()
        self._looked = self._looked_deep = float("-inf")

    @property
    def state(self) -> str | None:
        return self._status.state if self._status else None

    @property
    def why(self) -> str:
        return self._status.why if self._status else "the supervisor is starting"

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            status = project_status.status_of(self._work, PIPELINE)
            if status is not None:
                self._status, self._tally = status, self._tally.with_status(status)
        if now - self._looked_deep >= DEEP_LOOK_S:
            self._looked_deep = now
            self._look_deep(now)

    def is_over(self) -> bool:
        """Ignores the state of earlier deployments."""
        status, run = self._status, runs.newest(self._work.places, PIPELINE)
        if status is None or status.state not in OVER or run is None:
            return False
        is_ours = run.spec.generation >= self._generation and status.run in (None, run.name)
        return is_ours and not runs.is_open(run)

    def _look_deep(self, now: float) -> None:
        settings, demo = self._work.settings, self._demo
        written = list(input_reader.entries(demo.truth))
        beats, beat_files = self._transport.beats()
        alerts = outputs.alerts_of(self._work.places)
        logins = outputs.live_logins(settings)
        for growing in (self._history, self._reasons):
            growing.update()
        self._rows = {
            "history": self._history.sums.total(),
            "heartbeats": beats,
            "logins": len(logins),
            outputs.QUARANTINE: self._reasons.sums.total(),
            "overloaded": sum(alert.count for alert in alerts if alert.query == "overloaded"),
            "silent": sum(alert.count for alert in alerts if alert.query == "silent"),
        }
        files = {"history": len(self._history.seen)}
        if beat_files is not None:
            files["heartbeats"] = beat_files
        self._adjust_rate(now)
        self._view = replace(
            self._view,
            rate=self._pace.rate,
            is_slowed=self._pace.lowered,
            lines=sum(entry["lines"] for entry in written),
            malformed=sum(entry["malformed"] for entry in written),
            input_bytes=self._transport.input_bytes(),
            files=files,
            logins=logins,
            alerts=alerts,
            quarantine=self._reasons.sums,
        )

    def _adjust_rate(self, now: float) -> None:
        rate = self._pace.rate
        behind = self._transport.behind(rate)
        is_running = self.state in WORKING
        self._pace = demo_totals.adjust_pace(self._pace, behind, now, is_running=is_running)
        if self._pace.rate != rate:
            write_json(self._demo.control, {"rate": self._pace.rate})
            say(
                f"this machine is too slow for {rate} lines a second ({behind} s behind); "
                f"lowered the rate to {self._pace.rate}",
                colour="yellow",
            )

    def has_committed(self) -> bool:
        """Every query has committed at least one batch since the demo began."""
        if not self._names:
            version, profile = self._version, self._work.profile
            found = deployed.read(self._work.places, version, profile, PIPELINE)
            self._names = frozenset(query.name for query in found.queries) if found else frozenset()
        waiting = {name for name in self._names if not self._transport.is_flowing(name)}
        return bool(self._names) and self._tally.has_committed(frozenset(waiting))

    def has_silence(self) -> bool:
        """The alert for the silent cluster has opened in this demo, not in an earlier one."""
        return any(a.query == "silent" and a.id not in self._before for a in self._view.alerts)

    def take_snapshot(self, phase: str) -> terminal_view.ViewState:
        totals = self._tally.with_rows_out(self._rows)
        return replace(self._view, phase=phase, status=self._status, totals=totals)

    def _latencies(self, measured: Mapping[str, Latency]) -> dict[str, Any]:
        """As measured from outside, else as the query itself reports."""
        reported = {
            name: {"p50": round(total.fresh_p50_ms, 1), "p99": round(total.fresh_p99_ms, 1)}
            for name, total in self._tally.totals().items()
            if total.fresh_p50_ms is not None and total.fresh_p99_ms is not None
        }
        return reported | {name: latency.to_json() for name, latency in measured.items()}

    def to_json(self, counted: Count, measured: Mapping[str, Latency]) -> dict[str, Any]:
        """The last line of `--json`. `files` counts the files of history and heartbeats."""
        self._look_deep(time.monotonic())
        totals = self._tally.with_rows_out(self._rows)
        return {
            "lost": counted.lost,
            "doubled": counted.doubled,
            "late": counted.late,
            "malformed": counted.malformed,
            "quarantined": counted.quarantined,
            "restarts": self._status.restarts if self._status else 0,
            "repeated": counted.repeated,
            "files": sum(self._view.files.values()),
            "latency_ms": self._latencies(measured),
            "alerts": {"overloaded": counted.overloaded, "silent": counted.silent},
            "queries": {name: totals[name].to_json() for name in sorted(totals)},
        }


class DemoScreen:
    """Draws every second on a terminal; otherwise prints a line on stderr now and then."""

    def __init__(self, live: Live | None) -> None:
        self._live = live
        self._shown_at = float("-inf")

    def show(self, seen: terminal_view.ViewState, *, is_news: bool = False) -> None:
        now = time.monotonic()
        if not is_news and now - self._shown_at < (DRAW_S if self._live else LINE_S):
            return
        self._shown_at = now
        if self._live is not None:
            self._live.update(terminal_view.render(seen, self._live.console.height), refresh=True)
        else:
            say(terminal_view.line(seen))


@contextmanager
def open_screen(*, is_live: bool) -> Iterator[DemoScreen]:
    live = Live(console=output.console(), auto_refresh=False) if is_live else None
    with live or nullcontext():
        yield DemoScreen(live)
