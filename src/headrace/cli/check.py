"""`check`: find every problem in pipelines; with --connect also connect to their brokers.

--connect uses the definitions, the settings and our own clients: no Spark, no user code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import click

from headrace.cli import output, pipeline_definitions
from headrace.cli.options import Options, pass_options_and_json
from headrace.config import Settings
from headrace.connectors import kinds
from headrace.connectors.kafka import broker_client
from headrace.errors import Error, together
from headrace.model.pipeline import Definition, Node
from headrace.project import system_topics


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--connect", is_flag=True, help="Also connect to every broker in the definitions.")
@pass_options_and_json
def check(options: Options, names: tuple[str, ...], connect: bool, json_: bool) -> None:
    """Find every problem without starting a query.

    NAME is a pipeline or the path of its file; the default is all pipelines in the project.
    """
    work = options.open()
    found = pipeline_definitions.define(work, names, quiet=json_)
    reached = check_connections(work.settings, found) if connect else []
    if json_:
        body = {"pipelines": [definition.to_json() for definition in found]}
        output.print_json({**body, "connected": reached} if connect else body)
        return
    output.print_definitions(found)
    for target in reached:
        click.echo(f"  {target['name']}  {target['kind']} {target['found']}")
    if connect and not reached:
        click.echo("Nothing to connect to: every source and sink is on this machine.")


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    """A source or sink. `connect` describes what it reached, or returns None if it is local."""

    name: str
    kind: str
    place: str
    connect: Callable[[], str | None]


def check_connections(
    settings: Settings, definitions_: Sequence[Definition]
) -> list[dict[str, str]]:
    """What was reached: name, kind, found. Raises every problem at once."""
    reached: list[dict[str, str]] = []
    problems: list[Error] = []
    for target in (*_pipeline_targets(definitions_), *_project_targets(settings)):
        try:
            found = target.connect()
        except Error as exc:
            exc.what, exc.where = f"{target.name}: {exc.what}", exc.where or target.place
            problems.append(exc)
            continue
        if found is not None:
            reached.append({"name": target.name, "kind": target.kind, "found": found})
    if problems:
        raise together(problems)
    return reached


def _pipeline_targets(definitions_: Sequence[Definition]) -> Iterator[ConnectionTarget]:
    seen: set[str] = set()
    for node in (node for definition in definitions_ for node in definition.nodes):
        fields = node.connector
        same = json.dumps([node.kind == "query", fields], sort_keys=True)
        if fields is None or same in seen or kinds.maker(fields["kind"]) is None:
            continue
        if not node.is_declared and set(fields) == {"kind"}:
            continue  # only the user's code knows how to log in there
        seen.add(same)
        yield ConnectionTarget(node.name, str(fields["kind"]), node.place, partial(_connect, node))


def _connect(node: Node) -> str | None:
    made = kinds.build_connector(node.connector or {}, name=node.name)
    return made.check_connection(as_sink=node.kind == "query")


def _project_targets(settings: Settings) -> Iterator[ConnectionTarget]:
    for sink in system_topics.list_sinks(settings):
        made = sink.made(settings)
        if made is not None:
            connect = partial(broker_client.check_connection, made, sink.wanted)
            yield ConnectionTarget(sink.setting, made.kind, sink.place, connect)
