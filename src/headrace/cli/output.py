"""Prints tables for people and JSON for programs on stdout."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.errors import in_words
from headrace.model.findings import Finding
from headrace.model.lag import QueryLag
from headrace.model.pipeline import Definition, Query
from headrace.model.progress import from_spark
from headrace.model.status import PipelineStatus, QueryStatus, State
from headrace.model.times import clock, span

if TYPE_CHECKING:
    from headrace.project.status import Overview

WATCH_S = 1.0
FRESH = "fresh p50 / p99"
_COLOURS = {
    State.STARTING: "cyan",
    State.RUNNING: "green",
    State.DEGRADED: "bold yellow",
    State.CATCHING_UP: "yellow",
    State.STALLED: "bold red",
    State.WAITING: "yellow",
    State.NEEDS_ATTENTION: "bold red",
    State.STOPPING: "cyan",
    State.STOPPED: "dim",
    State.FINISHED: "green",
}


def console() -> Console:
    """Wide without a terminal, so that no line in a pipe or a log is cut."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)


def print_json(body: Any) -> None:
    click.echo(json.dumps(body, indent=2, default=str))


def print_line(line: str | Mapping[str, Any]) -> None:
    click.echo(line if isinstance(line, str) else json.dumps(line, default=str))


def print_either(words: str, body: Mapping[str, Any], *, json_: bool) -> None:
    if json_:
        print_json(body)
    else:
        click.echo(words)


def grid(
    *names: str, right: Collection[str] = (), wrap: Collection[str] = (), indent: int = 0
) -> Table:
    """A table without lines. `right`: columns of numbers."""
    table = Table(box=None, padding=(0, 2, 0, indent), header_style="dim")
    for name in names:
        justify: JustifyMethod = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=name not in wrap)
    return table


def print_overview(seen: Overview) -> None:
    console().print(overview(seen))


def watch(read: Callable[[], Overview], *, json_: bool) -> None:
    """Until Ctrl-C. With JSON: one object per line, when something has changed."""
    last: dict[str, Any] | None = None
    try:
        if json_:
            while True:
                body = read().to_json()
                if body != last:
                    print_line(body)
                    last = body
                time.sleep(WATCH_S)
        with Live(console=console(), auto_refresh=False, screen=sys.stdout.isatty()) as live:
            while True:
                live.update(overview(read()), refresh=True)
                time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return


def overview(seen: Overview) -> RenderableType:
    parts: list[RenderableType] = []
    if seen.notice:
        parts.append(Text(seen.notice, style="yellow"))
    for status in seen.pipelines:
        parts.append(_pipeline_line(status))
        if status.state != State.DEGRADED:  # its findings follow
            parts.append(Text(f"  {status.why}", style="dim"))
        if status.edited:
            words = f"  edited since it was deployed; to deploy it again: headrace up {status.name}"
            parts.append(Text(words, style="yellow"))
        if status.queries:
            parts.append(_query_table(status.queries))
        parts += [finding_line(finding) for finding in status.all_findings()]
    problems = [export.words(time.time()) for export in seen.exports]
    parts += [Text(problem, style="yellow") for problem in problems if problem]
    parts += [Text(hint, style="dim") for hint in seen.hints]
    if seen.page:
        parts.append(Text(f"page: {seen.page} (headrace token prints a login link)", style="dim"))
    return Group(*parts)


def _pipeline_line(status: PipelineStatus) -> Text:
    restarts, cost = status.restarts, status.cpu_s_per_million_rows
    facts = [
        f"version {status.version[:12]}" if status.version else "",
        "dev" if status.dev else "",
        f"profile {status.profile}" if status.profile else "",
        f"since {clock(status.since)}" if status.since else "",
        f"{restarts} restart{'s' * (restarts != 1)}" if restarts else "",
        f"pid {status.pid}" if status.pid else "",
        f"{cost:g} CPU s per million rows" if cost is not None else "",
    ]
    line = Text().append(status.name, style="bold").append("  ")
    line.append(status.state, style=_colour(status.state))
    return line.append("  " + ", ".join(fact for fact in facts if fact), style="dim")


def finding_line(found: Finding) -> Text:
    style = "bold red" if found.is_problem else "yellow"
    line = Text("  ").append(f"{found.severity}: ", style=style)
    return line.append(f"{found.query}: {found.what}" if found.query else found.what)


def _query_table(queries: Sequence[QueryStatus]) -> Table:
    has_late = any(query.late_rows for query in queries)
    numbers = ["batch", "rows in", "rows/s in", "rows/s done", "behind", FRESH]
    numbers += ["late"] if has_late else []
    names = ("query", "state", *numbers, "guarantee", "now")
    table = grid(*names, right=numbers, wrap=["now"], indent=2)
    for query in queries:
        table.add_row(
            query.name,
            Text(query.state, style=_colour(query.state)),
            _number(query.batch),
            _number(query.rows_in),
            _number(query.input_rate),
            _number(query.processing_rate),
            _behind(query),
            _fresh(query),
            *([_number(query.late_rows)] if has_late else []),
            query.guarantee or "",
            Text(query.note or now(query.message)),
        )
    return table


def now(message: str | None) -> str:
    """Spark's message without the details of the source: `… from FileStreamSource[file:/…]`."""
    return re.sub(r"\[.*", "", message or "").strip()


def _fresh(query: QueryStatus) -> Text:
    words = ages(query.fresh_p50_ms, query.fresh_p99_ms)
    if not query.broken_promise or query.fresh_within_s is None:
        return Text(words)
    return Text(f"{words} > {span(query.fresh_within_s)}".strip(), style="bold red")


def ages(p50_ms: float | None, p99_ms: float | None) -> str:
    """`31 s / 58 s`; below a second in milliseconds; empty if unknown."""
    known = [ms for ms in (p50_ms, p99_ms) if ms is not None]
    return " / ".join(f"{ms:.0f} ms" if ms < 1000 else span(ms / 1000) for ms in known)


def _behind(query: QueryStatus) -> str:
    if query.lag_seconds is not None:
        return f"{query.lag_seconds:,.0f} s"
    if query.is_lag_unknown:
        return "unknown"
    return f"{query.lag_rows:,} rows" if query.lag_rows is not None else ""


def print_lag(found: Sequence[QueryLag], at: float, *, partitions: bool) -> None:
    numbers = ("records behind", "oldest waiting", "caught up in", "data loss in", "measured")
    table = grid("query", *numbers, "", right=numbers, wrap=[""])
    for lag in found:
        lost = lag.lost_records
        gone = f"{lost:,} records deleted before they were read" if lost else ""
        note = "" if gone else lag.note
        table.add_row(
            f"{lag.pipeline}/{lag.query}",
            f"{lag.records:,}" if lag.records is not None else "unknown",
            _span(lag.seconds),
            _span(lag.catch_up_s) if lag.records else "",
            _span(lag.loss_in_s),
            f"{span(max(0.0, at - lag.at))} ago",
            Text(note, style="dim") if note else Text(lag.problem or gone, style="red"),
        )
        for part in lag.partitions if partitions else ():
            table.add_row(
                f"  {part.topic} {part.partition}",
                f"{part.records:,}",
                _span(part.waits_s),
                "",
                _span(part.loss_in_s),
                "",
                Text(f"{part.next:,} of {part.low:,} to {part.high:,}", style="dim"),
            )
    console().print(table)
    for lag in found:
        if lag.group_problem:
            name, problem = f"{lag.pipeline}/{lag.query}", lag.group_problem
            words = f"The consumer group for {name} could not be updated: {problem}"
            console().print(Text(words, style="red"))


def _span(seconds: float | None) -> str:
    return "" if seconds is None else span(seconds)


def print_warnings(found: Sequence[Definition]) -> None:
    for definition in found:
        for warning in definition.warnings:
            body = {**warning, "what": f"warning: {warning.get('what')}"}
            click.echo(in_words(body, colour="yellow"), err=True)


def print_definitions(found: Sequence[Definition]) -> None:
    """Warnings first, then the queries of each pipeline."""
    print_warnings(found)
    for definition in found:
        count = len(definition.queries)
        counted = f"{count} quer{'y' if count == 1 else 'ies'}"
        title = Text(definition.pipeline, style="bold")
        title.append(f"  {definition.file}, {counted}", style="dim")
        console().print(title, _definition_table(definition), sep="\n")
        parsed = [f"{n.name} by {', '.join(n.engines)}" for n in definition.nodes if n.engines]
        if parsed:
            click.secho(f"  JSON is parsed in {'; '.join(parsed)}", dim=True)
    warned = sum(len(definition.warnings) for definition in found)
    end = f", {warned} warning{'s' * (warned != 1)}" if warned else ""
    click.secho(f"No problems{end}.", fg="green")


def _definition_table(definition: Definition) -> Table:
    names = ("query", "from → to", "mode", "trigger", "guarantee", "why")
    table = grid(*names, wrap=["from → to", "why"], indent=2)
    for query in definition.queries:
        table.add_row(
            query.name,
            f"{', '.join(sources(definition, query))} → {connector_words(query.sink)}",
            query.mode,
            trigger_words(query.trigger),
            query.guarantee,
            query.guarantee_why,
        )
    return table


def sources(definition: Definition, query: Query) -> list[str]:
    """The sources and streams that a query reads, directly or through views."""
    views = {node.name: node.inputs for node in definition.nodes if node.kind == "view"}

    def through_views(name: str) -> Iterator[str]:
        for below in views.get(name, ()):
            yield from through_views(below)
        if name not in views:
            yield name

    return list(dict.fromkeys(name for one in query.inputs for name in through_views(one)))


def connector_words(connector: Mapping[str, Any]) -> str:
    """`parquet data/words`, `kafka topic`: the kind and the location."""
    kind = str(connector["kind"])
    if kind == "files":
        kind = str(connector.get("format") or kind)
    for name in ("path", "topic", "subscribe", "table", "stream", "host"):
        if isinstance(connector.get(name), str):
            return f"{kind} {connector[name]}"
    return kind


def trigger_words(trigger: Mapping[str, Any]) -> str:
    """`every 2 s`, `available-now`, `real-time 60 s`, `as fast as possible`."""
    kind = str(trigger.get("kind") or "").replace("as-fast-as-possible", "as fast as possible")
    seconds = [trigger[name] for name in ("seconds", "batch_s", "every_s") if name in trigger]
    return f"{kind} {seconds[0]:g} s" if seconds else kind


def print_progress(found: Sequence[Mapping[str, Any]]) -> None:
    if not found:
        click.echo("No batch has been committed yet.")
        return
    numbers = ("batch", "rows", "rows/s in", "rows/s done", "took ms", FRESH, "late")
    table = grid("at", "query", *numbers, right=numbers, wrap=numbers)
    for item in found:
        batch, fresh = from_spark(item["progress"]), item["fresh"] or {}
        table.add_row(
            clock(item["at"]),
            f"{item['pipeline']}/{item['query']}",
            _number(batch.batch),
            _number(batch.rows_in),
            _number(batch.input_rate),
            _number(batch.processing_rate),
            _number(batch.batch_ms),
            ages(fresh.get("p50_ms"), fresh.get("p99_ms")),
            _number(batch.rows_late or None),
        )
    console().print(table)


def print_versions(found: Sequence[Mapping[str, Any]]) -> None:
    if not found:
        click.echo("Nothing has been deployed yet; headrace up deploys the working folder.")
        return
    table = grid("version", "created", "deployed for", "previously for")
    for item in found:
        current, earlier = ", ".join(item["current"]), ", ".join(item["earlier"])
        table.add_row(item["version"], clock(item["at"]), current, earlier)
    console().print(table)


def _number(value: float | None) -> str:
    if value is None or not isinstance(value, int | float) or value != value:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _colour(state: str) -> str:
    return _COLOURS[State(state)] if state in set(State) else ""
