"""`alerts`: list, show, acknowledge and silence alerts, try a channel.

Only acknowledging and silencing need a supervisor.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time

import click
from rich.text import Text

from headrace.cli import output
from headrace.cli.options import (
    Options,
    Seconds,
    as_json,
    pass_options_and_json,
    shared_options,
)
from headrace.model import times
from headrace.model.times import span
from headrace.project import alerts as project_alerts
from headrace.project import control
from headrace.project import silences as project_silences
from headrace.store import silences
from headrace.store.alerts import StoredAlert
from headrace.store.deliveries import Delivery
from headrace.store.silences import Silence

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
    work, now = options.open(), time.time()
    seen = project_alerts.find(work, name, is_all=all_)
    active = project_alerts.active_silences(work, now)
    if json_:
        found = [project_alerts.to_json(alert, active, now) for alert in seen]
        output.print_json({"alerts": found})
    else:
        print_alerts(seen, active, is_all=all_)


@alerts.command("show")
@click.argument("number", type=int, metavar="ID")
@pass_options_and_json
def show(options: Options, number: int, json_: bool) -> None:
    """Show one alert and what was sent to each channel.

    ID is the number in `alerts list`.
    """
    work, now = options.open(), time.time()
    alert, sent = project_alerts.show(work, number)
    active = project_alerts.active_silences(work, now)
    if json_:
        body = project_alerts.to_json(alert, active, now)
        output.print_json({**body, "deliveries": [delivery.to_json() for delivery in sent]})
        return
    print_alerts([alert], active, is_all=True)
    for line in describe_state(alert, active, now):
        click.echo(f"  {line}")
    for name, value in alert.data.items():
        click.echo(f"  {name}: {value}")
    print_deliveries(sent)


@alerts.command("ack")
@click.argument("number", type=int, metavar="ID")
@pass_options_and_json
def ack(options: Options, number: int, json_: bool) -> None:
    """Acknowledge an alert: you deal with it.

    Channels tell the others, and do not repeat the alert unless it becomes more severe. ID is the
    number in `alerts list`.
    """
    _print_reply(control.acknowledge(options.open(), number), json_)


@alerts.command("silence")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--pipeline", metavar="GLOB", help="Pipelines, for example 'orders-*'.")
@click.option("--rule", metavar="GLOB", help="Rules, for example 'lag'; default: all.")
@click.option(
    "--for", "for_s", type=Seconds(), required=True, metavar="TIME", help="How long, such as 2h."
)
@click.option("--reason", required=True, help="Why; shown to others.")
@pass_options_and_json
def silence(options: Options, for_s: float, reason: str, json_: bool, **about: str | None) -> None:
    """Send no notices about some alerts for some time.

    NAME is a pipeline or a query. Alerts are still listed. An alert that is open at the end of the
    silence is sent then.
    """
    work = options.open()
    subject = project_silences.choose(work, **about)
    until = project_silences.end_after(for_s, time.time())
    _print_reply(control.silence(work, subject, until=until, reason=reason), json_)


@alerts.command("silences")
@click.option("--all", "all_", is_flag=True, help="Also show silences that have ended.")
@pass_options_and_json
def silences_(options: Options, all_: bool, json_: bool) -> None:
    """List silences, newest first."""
    now = time.time()
    found = project_silences.list_all(options.open(), now, is_all=all_)
    if json_:
        output.print_json({"silences": [one.to_json() for one in found]})
    else:
        print_silences(found, now, is_all=all_)


@alerts.command("unsilence")
@click.argument("number", type=int, metavar="ID")
@pass_options_and_json
def unsilence(options: Options, number: int, json_: bool) -> None:
    """End a silence.

    ID is the number in `alerts silences`. Its alerts that are still open are sent now.
    """
    _print_reply(control.end_silence(options.open(), number), json_)


def _print_reply(text: str, json_: bool) -> None:
    if json_:
        output.print_json({"text": text})
    else:
        click.echo(text)


@alerts.command("test")
@click.argument("channel")
@pass_options_and_json
def test(options: Options, channel: str, json_: bool) -> None:
    """Send a test notice to a channel, then resolve it.

    A channel of the kind `heartbeat` gets a ping. Shows the service's reply; the exit code is 1 if
    the service rejects the notice.
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
        about = {"method": received.method, "path": received.path, "status": reply.status}
        text = f"{received.method} {received.path} ({reply.status})\n{body}\n"
        click.echo(json.dumps({**about, "body": body}) if json_ else text)
        return reply

    with Receiver(answer, port) as receiver:
        click.echo(f"Listening on {receiver.url}. Press Ctrl-C to stop.", err=json_)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


def describe_state(alert: StoredAlert, active: list[Silence], now: float) -> list[str]:
    """Who deals with the alert, and why it is silent."""
    lines = []
    if alert.acknowledged_at is not None:
        at = times.clock(alert.acknowledged_at)
        lines.append(f"Acknowledged by {alert.acknowledged_by} at {at}")
    found = silences.find(active, alert, now) if alert.resolved_at is None else None
    if found:
        until = times.clock(found.until)
        lines.append(f"Silence {found.id} by {found.by} until {until}: {found.reason}")
    return lines


def print_deliveries(sent: list[Delivery]) -> None:
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


def print_silences(found: list[Silence], now: float, *, is_all: bool) -> None:
    if not found:
        click.echo("No silences." if is_all else "No active silences.")
        return
    table = output.grid(
        "id", "state", "pipeline", "query", "rule", "until", "by", "reason",
        right=["id"], wrap=["by", "reason"],
    )  # fmt: skip
    for one in found:
        table.add_row(
            str(one.id), "active" if one.is_active(now) else "ended", one.pipeline,
            one.query or "*", one.rule,
            times.clock(one.until if one.ended_at is None else one.ended_at),
            Text(one.by), Text(one.reason),
        )  # fmt: skip
    output.console().print(table)


def _name_state(alert: StoredAlert, active: list[Silence], now: float) -> str:
    if alert.resolved_at is not None:
        return "resolved"
    if alert.acknowledged_at is not None:
        return "acknowledged"
    return "silenced" if silences.find(active, alert, now) else "open"


def print_alerts(seen: list[StoredAlert], active: list[Silence], *, is_all: bool) -> None:
    if not seen:
        click.echo("No alerts." if is_all else "No open alerts.")
        return
    names = ("id", "state", "severity", "title", "of", "opened", "updated", "count")
    table = output.grid(*names, right=["id", "count"], wrap=["title", "count"])
    now = time.time()
    for alert in seen:
        table.add_row(
            str(alert.id),
            _name_state(alert, active, now),
            Text(alert.severity, style=_COLOURS.get(alert.severity, "")),
            Text(alert.title),
            "/".join(part for part in (alert.pipeline, alert.query) if part),
            *(f"{span(max(0.0, now - at))} ago" for at in (alert.opened_at, alert.updated_at)),
            f"{alert.count:,}",
        )
    output.console().print(table)
    if len(seen) == project_alerts.SHOWN_MAX:
        click.echo(f"Showing the newest {project_alerts.SHOWN_MAX:,}.")
