"""Commands that show the present: `status`, `wait`, `lag`. The tables are in output.py."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from headrace.cli import output
from headrace.cli.options import Options, Seconds, pass_options_and_json
from headrace.errors import Error
from headrace.model.status import OVER, WORKING, PipelineStatus, QueryStatus, State
from headrace.project import status as project_status
from headrace.project.workspace import Workspace, resolve_pipeline, resolve_query
from headrace.state import lag as state_lag

POLL_S = 0.25


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-w", "--watch", is_flag=True, help="Show changes until Ctrl-C.")
@pass_options_and_json
def status(options: Options, names: tuple[str, ...], watch: bool, json_: bool) -> None:
    """Show what is running, its state, and why."""
    work = options.open()
    if watch:
        output.watch(lambda: project_status.overview(work, names), json_=json_)
        return
    seen = project_status.overview(work, names)
    if json_:
        output.print_json(seen.to_json())
    else:
        output.print_overview(seen)


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--until",
    type=click.Choice(["running", "caught-up", "stopped"]),
    default="running",
    show_default=True,
    help="State to wait for; stopped includes finished and needs-attention.",
)
@click.option(
    "--timeout", type=Seconds(), default="60s", show_default=True, help="How long to wait."
)
@pass_options_and_json
def wait(options: Options, name: str, until: str, timeout: float, json_: bool) -> None:
    """Wait for a state; exit with code 1 on timeout."""
    seen = wait_until(options.open(), name, until, timeout)
    words = f"{seen.name} is {seen.state}: {seen.why}"
    output.print_either(words, seen.to_json(), json_=json_)


def wait_until(work: Workspace, name: str, until: str, timeout_s: float) -> PipelineStatus:
    pipeline, query = resolve_query(work, name, project_status.queries(work))
    is_reached = _CONDITIONS[until]
    deadline = time.monotonic() + timeout_s
    while True:
        seen = project_status.status_of(work, pipeline)
        queries = tuple(q for q in seen.queries if query in (None, q.name)) if seen else ()
        if seen is not None and is_reached(seen, queries):
            return seen
        if time.monotonic() >= deadline:
            raise _timeout_error(name, pipeline, until, timeout_s, seen)
        time.sleep(POLL_S)


def _is_running(seen: PipelineStatus, queries: tuple[QueryStatus, ...]) -> bool:
    """The whole pipeline, or the named query."""
    is_whole = queries == seen.queries
    states = [seen.state] if is_whole else [item.state for item in queries]
    return bool(states) and all(state in WORKING for state in states)


def _is_caught_up(seen: PipelineStatus, queries: tuple[QueryStatus, ...]) -> bool:
    """Finished; or every query runs, and its last look at the source found nothing new."""
    if seen.state == State.FINISHED:
        return True
    return bool(queries) and all(
        item.state in (State.RUNNING, State.DEGRADED)
        and item.data_available is False
        and not item.lag_rows
        and not item.is_lag_unknown
        for item in queries
    )


_CONDITIONS: dict[str, Callable[[PipelineStatus, tuple[QueryStatus, ...]], bool]] = {
    "running": _is_running,
    "caught-up": _is_caught_up,
    "stopped": lambda seen, _: seen.state in OVER,
}


def _timeout_error(
    name: str, pipeline: str, until: str, timeout_s: float, seen: PipelineStatus | None
) -> Error:
    instead = f"It is {seen.state}: {seen.why}" if seen else "It has never been deployed"
    if seen and seen.queries:
        instead += "; " + ", ".join(f"{query.name} {query.state}" for query in seen.queries)
    return Error(
        f'"{name}" did not reach the state {until} within {timeout_s:g} s.',
        why=f"{instead}.",
        fix=f"Run headrace why {pipeline}, or wait longer with "
        f"--timeout {max(2 * timeout_s, 60):g}s.",
        slug="wait-timeout",
    )


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--partitions", is_flag=True, help="Also show each partition.")
@pass_options_and_json
def lag(options: Options, name: str | None, partitions: bool, json_: bool) -> None:
    """Show how far queries are behind in Kafka.

    Shows how many records and seconds each query is behind, how long it will take to catch up at
    the current rate, and when the broker will delete unread records. Queries that are not running
    are included. The values are updated every 5 seconds while the supervisor is running.
    """
    work = options.open()
    wanted = resolve_pipeline(work, name) if name else None
    now = time.time()
    measured = [lag.as_of(now) for lag in state_lag.read(work.places).values()]
    found = [lag for lag in measured if wanted in (None, lag.pipeline)]
    if json_:
        output.print_json({"queries": [lag.to_json() for lag in found]})
    elif found:
        output.print_lag(found, now, partitions=partitions)
    else:
        click.echo("No lag measured: no query that reads a broker has run under a supervisor yet.")
