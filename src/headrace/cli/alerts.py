"""`alerts`: list and show alerts, try a channel. Works without a supervisor."""

from __future__ import annotations

import contextlib
import json
import threading
import time

import click
from rich.text import Text

from headrace.cli import output
from headrace.cli.options import Options, as_json, pass_options_and_json, shared_options
from headrace.model import times
from headrace.model.times import span
from headrace.project import alerts as project_alerts
from headrace.store.alerts import StoredAlert

_COLOURS = {"critical": "bold red", "error": "red", "warning": "yellow"}


@click.group()
@shared_options
def alerts() -> None:
    """Alerts from pipelines and from hr.alert sinks."""


@alerts.command("list")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--all", "all_", is_flag=True, help="Also show resolved alerts.")
@pass_options_and_json
def list_(options: Options, name: str | None, all_: bool, json_: bool) -> None:
    """List open alerts, newest first.

    NAME is a pipeline or a query; the default is all.
    """
    seen = project_alerts.find(options.open(), name, is_all=all_)
    if json_:
        output.print_json({"alerts": [alert.to_json() for alert in seen]})
    else:
        print_alerts(seen, is_all=all_)


@alerts.command("show")
@click.argument("number", type=int, metavar="ID")
@pass_options_and_json
def show(options: Options, number: int, json_: bool) -> None:
    """Show one alert and what was sent to each channel.

    ID is the number in `alerts list`.
    """
    alert, sent = project_alerts.show(options.open(), number)
    if json_:
        body = {**alert.to_json(), "deliveries": [delivery.to_json() for delivery in sent]}
        output.print_json(body)
        return
    print_alerts([alert], is_all=True)
    for name, value in alert.data.items():
        click.echo(f"  {name}: {value}")
    if not sent:
        click.echo("This alert was not sent to any channel.")
        return
    table = output.grid("at", "channel", "notice", "state", "attempts", "reply", wrap=["reply"])
    for delivery in sent:
        table.add_row(
            times.clock(delivery.at), delivery.channel, delivery.kind, str(delivery.state),
            str(delivery.attempts), Text(delivery.reply),
        )  # fmt: skip
    output.console().print(table)


@alerts.command("test")
@click.argument("channel")
@pass_options_and_json
def test(options: Options, channel: str, json_: bool) -> None:
    """Send a test notice to a channel, then resolve it.

    Shows the service's reply; the exit code is 1 if the service rejects the notice.
    """
    replies = project_alerts.send_test(options.open(), channel)
    if json_:
        output.print_json({"channel": channel, "replies": replies})
        return
    for kind, reply in replies.items():
        click.echo(f"{channel}: {kind} accepted: {reply}")


@alerts.command("listen")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="Port; default: any free port."
)
@as_json
def listen(port: int, json_: bool) -> None:
    """Receive notices on this machine, and print them.

    Use the printed address as the `url` of a channel (pagerduty, slack, teams, webhook) to see what
    the channel sends; you do not need an account with that service.
    """
    from headrace.alerts.local_receiver import Received, Receiver, Reply, reply_as_service

    def answer(received: Received) -> Reply:
        reply = reply_as_service(received)
        body = received.content.decode(errors="replace")
        with contextlib.suppress(ValueError):
            body = json.dumps(received.json(), indent=None if json_ else 2, ensure_ascii=False)
        if json_:
            click.echo(json.dumps({"path": received.path, "status": reply.status, "body": body}))
        else:
            click.echo(f"POST {received.path} ({reply.status})\n{body}\n")
        return reply

    with Receiver(answer, port) as receiver:
        click.echo(f"Listening on {receiver.url}. Press Ctrl-C to stop.", err=json_)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


def print_alerts(seen: list[StoredAlert], *, is_all: bool) -> None:
    if not seen:
        click.echo("No alerts." if is_all else "No open alerts.")
        return
    names = ("id", "state", "severity", "title", "of", "opened", "updated", "count")
    table = output.grid(*names, right=["id", "count"], wrap=["title", "count"])
    now = time.time()
    for alert in seen:
        table.add_row(
            str(alert.id),
            "open" if alert.resolved_at is None else "resolved",
            Text(alert.severity, style=_COLOURS.get(alert.severity, "")),
            Text(alert.title),
            "/".join(part for part in (alert.pipeline, alert.query) if part),
            *(f"{span(max(0.0, now - at))} ago" for at in (alert.opened_at, alert.updated_at)),
            f"{alert.count:,}",
        )
    output.console().print(table)
    if len(seen) == project_alerts.SHOWN_MAX:
        click.echo(f"Showing the latest {project_alerts.SHOWN_MAX:,}.")
