"""`kafka`: a real broker for development, one node on loopback, started from fetched jars.

Its data is in `.headrace/kafka` and survives `down` and `up`. Not for production: each topic has
one replica.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from headrace import process_identity
from headrace.cli import output, spinner
from headrace.cli.jars import fetch_bundle
from headrace.cli.options import Options, pass_options_and_json
from headrace.connectors import jars
from headrace.driver import java
from headrace.errors import SetupError
from headrace.json_file import read_json, write_json
from headrace.model.runs import Process
from headrace.model.state_paths import StatePaths
from headrace.supervisor import process

PORT = 9092
LOOPBACK = ("127.0.0.1", "localhost")
START_S = 60.0
STOP_S = 30.0
POLL_S = 0.1
HEAP = "-Xmx512m"
CLUSTER = "headraceDevelopment000"  # Kafka wants 22 characters


@click.group()
def kafka() -> None:
    """A Kafka broker for development, on this machine."""


@kafka.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port; default: 9092, or the next free port."
)
@pass_options_and_json
def up(options: Options, port: int | None, json_: bool) -> None:
    """Start the broker; it keeps its data in .headrace/kafka."""
    work = options.open()
    with spinner.show("starting the broker", quiet=json_):
        found = start_broker(work.places, port)
    servers, pid = found.servers, found.process.pid
    words = f"Kafka is listening on {servers} (process {pid})"
    output.print_either(words, {"servers": servers, "pid": pid}, json_=json_)


@kafka.command()
@click.option("--delete", is_flag=True, help="Also delete all topics.")
@pass_options_and_json
def down(options: Options, delete: bool, json_: bool) -> None:
    """Stop the broker."""
    work = options.open()
    was_up = stop_broker(work.places)
    if delete:
        shutil.rmtree(work.places.broker.parent, ignore_errors=True)
    words = "Kafka has stopped" if was_up else "Kafka was not running"
    words += "; its data was deleted" if delete else ""
    output.print_either(words, {"ended": was_up, "deleted": delete}, json_=json_)


@dataclass(frozen=True, slots=True)
class DevBroker:
    """A running broker."""

    process: Process
    port: int
    is_of_demo: bool = False  # ends with the demo that started it

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"


def running_broker(places: StatePaths) -> DevBroker | None:
    body = read_json(places.broker)
    if body is None:
        return None
    found = Process(body["pid"], body["started"], body["boot"])
    if not process_identity.is_alive(found):
        return None
    return DevBroker(found, body["port"], bool(body.get("is_of_demo")))


def start_broker(
    places: StatePaths,
    port: int | None,
    *,
    is_cancelled: Callable[[], bool] = lambda: False,
    of_demo: bool = False,
) -> DevBroker:
    """Return a broker that listens: the running one, or a new one."""
    if found := running_broker(places):
        return found
    java.check()
    home = places.broker.parent
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    bundle = jars.BUNDLES["broker"]
    folder = (jars.fetched_files(bundle) or fetch_bundle(bundle))[0].parent
    settings, log = home / "server.properties", home / "broker.log"
    if port is not None and not _is_free(port):
        raise _start_error(f"Port {port} is in use by another program.", log)
    chosen = port or _previous_port(places) or free_port(PORT)
    settings.write_text(properties(chosen, free_port(0), home / "data"))
    _format(home, folder)
    program = [str(java.executable()), HEAP, "-cp", f"{folder}/*", "kafka.Kafka"]
    started = process.detach([*program, str(settings)], home, log)
    write_json(places.broker, {**started.to_json(), "port": chosen, "is_of_demo": of_demo})
    _await(started, chosen, log, is_cancelled)
    return DevBroker(started, chosen, of_demo)


def stop_broker(places: StatePaths) -> bool:
    """False if no broker was running."""
    found = running_broker(places)
    if found is None:
        return False
    process.ask_to_end(found.process)
    deadline = time.monotonic() + STOP_S
    while process_identity.is_alive(found.process):
        process.collect_children()
        if time.monotonic() > deadline:
            process.end_now(found.process)
        time.sleep(POLL_S)
    return True


def properties(port: int, controller: int, data: Path) -> str:
    """One node that is broker and controller; every topic has one replica. Pure."""
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data),
        "num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _format(home: Path, path: Path) -> None:
    """Write the cluster id into a new data folder."""
    if (home / "data" / "meta.properties").exists():
        return
    tool = [str(java.executable()), "-cp", f"{path}/*", "kafka.tools.StorageTool", "format"]
    command = [*tool, "-t", CLUSTER, "-c", str(home / "server.properties"), "--standalone"]
    log = home / "format.log"
    if why := process.run_command(command, home, log, START_S):
        raise _start_error(why, log)


def _await(started: Process, port: int, log: Path, is_cancelled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while process_identity.is_alive(started) and time.monotonic() < deadline:
        if is_cancelled():
            return
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        process.collect_children()
        time.sleep(POLL_S)
    process.end_now(started)
    raise _start_error(process.tail_of(log).strip() or "It printed nothing.", log)


def _previous_port(places: StatePaths) -> int | None:
    """The port of the last start, if it is still free: pipelines are configured with it."""
    body = read_json(places.broker)
    port = int(body["port"]) if body else None
    return port if port and _is_free(port) else None


def free_port(first: int) -> int:
    """`first` or one of the next 49; with 0, any port that the system offers."""
    for port in range(first, first + 50) if first else ():
        if _is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _start_error(why: str, log: Path) -> SetupError:
    return SetupError(
        "The Kafka broker did not start.",
        why=why[-2000:],
        where=str(log),
        fix="If the port is in use, choose another: headrace kafka up --port PORT. If the broker's "
        "data is damaged, delete it and all topics: headrace kafka down --delete",
        slug="broker-start",
    )
