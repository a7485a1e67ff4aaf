"""A real Kafka broker for development: one node on loopback, from the fetched jars.

Its data is below `.headrace/kafka`, and stays over `down` and `up`. Not for production: one node
keeps one copy.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace import processes
from headrace.cli.jars import fetched
from headrace.connectors import jars
from headrace.driver import java
from headrace.errors import SetupError
from headrace.jsonfile import read_json, write_json
from headrace.model.places import Places
from headrace.model.runs import Process
from headrace.supervisor import process

PORT = 9092
OURS = ("127.0.0.1", "localhost")
START_S = 60.0
STOP_S = 30.0
POLL_S = 0.1
HEAP = "-Xmx512m"
CLUSTER = "headraceDevelopment000"  # an id of 22 characters, as Kafka wants it


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that runs."""

    process: Process
    port: int
    is_of_demo: bool = False  # it ends with the demo that started it

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"


def running(places: Places) -> Broker | None:
    told = read_json(places.broker)
    if told is None:
        return None
    found = Process(told["pid"], told["started"], told["boot"])
    if not processes.is_alive(found):
        return None
    return Broker(found, told["port"], bool(told.get("is_of_demo")))


def up(
    places: Places,
    port: int | None,
    *,
    is_over: Callable[[], bool] = lambda: False,
    of_demo: bool = False,
) -> Broker:
    """Starts it, and returns once it listens; one that runs stays as it is. `is_over`: nobody
    wants it any more."""
    if found := running(places):
        return found
    java.check()
    home = places.broker.parent
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    bundle = jars.BUNDLES["broker"]
    path = jars.fetched(bundle) or fetched(bundle)
    kept = _kept_port(home)
    if port is not None and not _is_free(port):
        raise _failed(f"port {port} is taken by another program", home / "broker.log")
    chosen = port or kept or free(PORT)
    controller = free(0)
    (home / "server.properties").write_text(properties(chosen, controller, home / "data"))
    _format(home, path[0].parent)
    log = home / "broker.log"
    begun = process.detach(
        [str(java.executable()), HEAP, "-cp", f"{path[0].parent}/*", "kafka.Kafka",
         str(home / "server.properties")],
        home,
        log,
    )  # fmt: skip
    write_json(places.broker, {**begun.to_json(), "port": chosen, "is_of_demo": of_demo})
    _await(begun, chosen, log, is_over)
    return Broker(begun, chosen, of_demo)


def down(places: Places) -> bool:
    """Ends it at once and cleanly; False if none ran."""
    found = running(places)
    if found is None:
        return False
    process.ask_to_end(found.process)
    deadline = time.monotonic() + STOP_S
    while processes.is_alive(found.process):
        process.collect_children()
        if time.monotonic() > deadline:
            process.end_now(found.process)
        time.sleep(POLL_S)
    return True


def delete(places: Places) -> None:
    shutil.rmtree(places.broker.parent, ignore_errors=True)


def properties(port: int, controller: int, data: Path) -> str:
    """One node that is broker and controller; every topic has one copy. Pure."""
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
    """A fresh data folder gets its cluster id; one that has it is left alone."""
    if (home / "data" / "meta.properties").exists():
        return
    tool = [str(java.executable()), "-cp", f"{path}/*", "kafka.tools.StorageTool", "format"]
    command = [*tool, "-t", CLUSTER, "-c", str(home / "server.properties"), "--standalone"]
    log = home / "format.log"
    if why := process.finished(command, home, log, START_S):
        raise _failed(why, log)


def _await(begun: Process, port: int, log: Path, is_over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while processes.is_alive(begun) and time.monotonic() < deadline:
        if is_over():
            return
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        process.collect_children()
        time.sleep(POLL_S)
    process.end_now(begun)
    raise _failed(process.tail_of(log).strip() or "it left no words", log)


def _kept_port(home: Path) -> int | None:
    """The port it had before, as long as nobody else took it: pipelines know it by that."""
    told = read_json(home / "process.json")
    port = int(told["port"]) if told else None
    return port if port and _is_free(port) else None


def free(first: int) -> int:
    """`first` or one of the next; 0 asks the system for any."""
    if first:
        for port in range(first, first + 50):
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


def _failed(why: str, log: Path) -> SetupError:
    return SetupError(
        "The Kafka broker did not start.",
        why=why[-2000:],
        where=str(log),
        fix="headrace kafka up --port PORT takes another port; headrace kafka down --delete begins "
        "anew",
        slug="broker-start",
    )
