"""The demo's terminal view. Pure.

`render` is for a terminal, redrawn every second; `line` for logs and pipes; `summary` for the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.demo.latency import Latency
from headrace.demo.loss_count import Count, hours_and_minutes
from headrace.demo.run_totals import Total
from headrace.model.status import PipelineStatus, State
from headrace.model.times import clock
from headrace.store.alerts import StoredAlert

MINUTES_SHOWN = (3, 12)  # by the height of the terminal
ALERTS_SHOWN = 5
OTHER_LINES = 31  # lines of the view without the chart
BAR = 40
_BLOCKS = " ▏▎▍▌▋▊▉█"
_OUTPUTS = {
    "history": "Parquet by day",
    "logins": "live table",
    "heartbeats": "lines of JSON",
    "overloaded": "alert",
    "silent": "alert",
    "logs.quarantine": "quarantine",
}


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything that the view shows."""

    folder: str
    phase: str  # what it does or waits for
    status: PipelineStatus | None = None
    totals: Mapping[str, Total] = field(default_factory=dict)
    rate: int = 0
    is_slowed: bool = False
    lines: int = 0  # written by the generator
    malformed: int = 0
    input_bytes: int = 0
    files: Mapping[str, int] = field(default_factory=dict)  # committed, by query
    logins: Sequence[tuple[int, int]] = ()  # (minute in microseconds, logins)
    alerts: Sequence[StoredAlert] = ()
    quarantine: Mapping[str, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return self.status.state if self.status else State.STARTING

    @property
    def restarts(self) -> int:
        return self.status.restarts if self.status else 0


def render(seen: ViewState, height: int = 50) -> RenderableType:
    least, most = MINUTES_SHOWN
    shown = max(least, min(most, height - OTHER_LINES))
    parts: list[RenderableType] = [_head(seen), Text(f"  {seen.phase}", style="cyan"), Text()]
    if seen.totals:
        parts += [_outputs(seen), Text()]
    if seen.logins:
        parts += [Text("logins per minute", style="bold"), *_bars(seen.logins, shown), Text()]
    if seen.alerts:
        parts += [Text("alerts", style="bold"), *_alert_lines(seen.alerts), Text()]
    if seen.quarantine:
        ordered = sorted(seen.quarantine.items(), key=lambda pair: (-pair[1], pair[0]))
        reasons = ", ".join(f"{n:,} {why}" for why, n in ordered)
        parts += [Text("quarantine", style="bold"), Text(f"  {reasons}"), Text()]
    parts += [Text(line, style="dim") for line in next_steps(seen)]
    return Group(*parts)


def _head(seen: ViewState) -> Text:
    head = Text("headrace demo", style="bold")
    head.append(f"  {seen.state}", style="green" if seen.state == State.RUNNING else "yellow")
    facts = [f"{seen.rate:,} lines/s in"]
    if seen.is_slowed:
        facts = [f"this machine is too slow: rate lowered to {seen.rate:,} lines/s"]
    facts.append(f"{seen.lines:,} lines ({seen.malformed:,} malformed)")
    if seen.input_bytes:
        facts.append(f"{seen.input_bytes / 1e6:,.1f} MB of input stored")
    if seen.restarts:
        facts.append(f"{seen.restarts} restart{'s' * (seen.restarts != 1)}")
    head.append("  " + ", ".join(facts), style="dim")
    return head


def _outputs(seen: ViewState) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim")
    table.add_column("output", no_wrap=True)
    table.add_column("", style="dim", no_wrap=True)
    for name in ("rows in", "rows out", "rows/s", "batches", "files", "fresh (p50)"):
        table.add_column(name, justify="right", no_wrap=True)
    now = {q.name: q for q in seen.status.queries} if seen.status else {}
    for name in [*_OUTPUTS, *sorted(seen.totals.keys() - _OUTPUTS.keys())]:
        total = seen.totals.get(name)
        if total is None:
            continue
        rate = now[name].input_rate if name in now else None
        table.add_row(
            name,
            _OUTPUTS.get(name, ""),
            f"{total.rows_in:,}",
            "" if total.rows_out is None else f"{total.rows_out:,}",
            "" if rate is None else f"{rate:,.0f}",
            f"{total.batches:,}",
            f"{seen.files[name]:,}" if name in seen.files else "",
            fresh(total.fresh_p50_ms),
        )
    return table


def fresh(ms: float | None) -> str:
    return "" if ms is None else f"{ms:,.0f} ms" if ms < 1000 else f"{ms / 1000:,.1f} s"


def _bars(logins: Sequence[tuple[int, int]], count_max: int) -> list[Text]:
    shown = sorted(logins)[-count_max:]
    most = max(count for _, count in shown) or 1
    found = []
    for minute, count in shown:
        line = Text(f"  {hours_and_minutes(minute)} ", style="dim")
        line.append(bar(count / most), style="green")
        line.append(f" {count:,}")
        found.append(line)
    return found


def bar(share: float, width: int = BAR) -> str:
    """Drawn in eighths of a character."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def _alert_lines(alerts: Sequence[StoredAlert]) -> list[Text]:
    found = []
    for alert in alerts[:ALERTS_SHOWN]:
        is_open = alert.resolved_at is None
        line = Text("  ● " if is_open else "  ○ ", style="red" if is_open else "dim")
        line.append(alert.title, style="bold" if is_open else "dim")
        facts = [f"opened {clock(alert.opened_at)}"]
        if alert.resolved_at is not None:
            facts.append(f"resolved {clock(alert.resolved_at)}")
        if alert.updates:
            facts.append(f"{alert.updates + 1} rows")
        line.append(f"  {alert.query}, {', '.join(facts)}", style="dim")
        found.append(line)
    return found


def next_steps(seen: ViewState) -> list[str]:
    jvm = seen.status.jvm_pid if seen.status else None
    return [
        f"Try next, in another terminal: cd {seen.folder}",
        "  headrace status                      what is running, its state, and why",
        '  headrace sql "SELECT level, count(*) FROM history GROUP BY level"',
        f"  kill -9 {jvm or '<jvm pid>':<28} the pipeline restarts; no row is lost or duplicated",
        "  edit pipelines/metrics.py, then headrace status",
        "  headrace alerts listen --port 9999   prints notifications; see headrace.toml",
        "Press Ctrl-C to end the demo and count lost and duplicated rows.",
    ]


def line(seen: ViewState) -> str:
    """The same in one line."""
    parts = [f"{seen.state}: {seen.phase}", f"{seen.lines:,} lines in"]
    parts += [f"{name} {total.batches} batches" for name, total in sorted(seen.totals.items())]
    opened = len(seen.alerts)
    parts.append(f"{opened} alert{'s' * (opened != 1)}")
    parts.append(f"{sum(seen.quarantine.values()):,} quarantined")
    if seen.is_slowed:
        parts.append(f"this machine is too slow: rate lowered to {seen.rate} lines/s")
    if seen.restarts:
        parts.append(f"{seen.restarts} restarts")
    return "; ".join(parts)


def summary(counted: Count) -> list[str]:
    """The count, and details of each output that is wrong."""
    late = f", {counted.late:,} too late for their window" if counted.late else ""
    if counted.repeated:
        late += f", {counted.repeated:,} heartbeats repeated (that topic is at-least-once)"
    lines = [
        f"lost {counted.lost:,}, duplicated {counted.doubled:,}{late}; "
        f"{counted.malformed:,} malformed lines, {counted.quarantined:,} in quarantine; "
        f"alerts opened: {counted.overloaded:,} overloaded, {counted.silent:,} silent"
    ]
    for name, output in counted.outputs.items():
        if output.lost or output.doubled:
            lines.append(f"  {name}: lost {output.lost:,}, duplicated {output.doubled:,}")
            lines += [f"    {example}" for example in output.examples]
    return lines


def latencies(found: Mapping[str, Latency]) -> list[str]:
    """From the record in Kafka to the result; empty for files."""
    measured = [f"{n} {fresh(found[n].p50_ms)} / {fresh(found[n].p99_ms)}" for n in found]
    text = f"latency from Kafka to the result, p50 / p99: {', '.join(measured)}"
    return [text] if measured else []
