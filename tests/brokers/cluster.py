"""A real Kafka broker with every way to come in: plain, TLS, mutual TLS, and SASL over TLS.

From the jars that `headrace jars fetch broker` fetched; certificates by openssl; free ports; its
folder is gone with it. What it says goes into broker.log, which a failing start shows.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.connectors import jars
from headrace.driver import java

USER, PASSWORD = "ann", 'se"cret\\1'
CONNECTION = "Endpoint=sb://localhost:{port}/;SharedAccessKeyName=root;SharedAccessKey=a1b2=;EntityPath={hub}"
START_S = 180.0
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass
class Cluster:
    folder: Path
    ports: dict[str, int]
    process: subprocess.Popen[bytes]

    def servers(self, listener: str = "plain") -> str:
        """TLS by the name that the certificate has."""
        host = "127.0.0.1" if listener == "plain" else "localhost"
        return f"{host}:{self.ports[listener]}"

    def pem(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Again, after `stop`: the same data, the same ports."""
        self.process = _started(self.folder, self.ports)


@contextlib.contextmanager
def cluster(folder: Path, *, hubs: tuple[str, ...] = ()) -> Iterator[Cluster]:
    """`hubs` are the event hubs for which a connection string may log in."""
    folder.mkdir(parents=True, exist_ok=True)
    ports = dict(zip(("plain", "tls", "mutual", "login", "controller"), _free(5), strict=True))
    _certificates(folder)
    strings = [CONNECTION.format(port=ports["login"], hub=hub) for hub in hubs]
    (folder / "server.properties").write_text(_properties(folder, ports, strings))
    scram = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
    _java(
        folder, "kafka.tools.StorageTool", "format", "-t", "headraceTests000000000", "-c",
        str(folder / "server.properties"), "--standalone", "--add-scram", scram,
    )  # fmt: skip
    found = Cluster(folder, ports, _started(folder, ports))
    try:
        yield found
    finally:
        found.stop()


def tool(found: Cluster, name: str, *args: str, timeout_s: float = 180) -> str:
    """One of Kafka's own console tools, on the plain listener."""
    return _java(found.folder, name, *args, timeout_s=timeout_s)


def _properties(folder: Path, ports: dict[str, int], strings: list[str]) -> str:
    known = {USER: PASSWORD, "admin": "admin"}
    users = [f"user_{name}={_quoted(word)}" for name, word in known.items()]
    # One name can have one password: Event Hubs has one connection string here.
    users += [f"user_$ConnectionString={_quoted(text)}" for text in strings[:1]]
    listeners = {"plain": "PLAINTEXT", "tls": "SSL", "mutual": "SSL", "login": "SASL_SSL"}
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports['controller']}",
        "listeners": ",".join(
            f"{n.upper()}://127.0.0.1:{ports[n]}" for n in (*listeners, "controller")
        ),
        "advertised.listeners": ",".join(
            f"{n.upper()}://{'127.0.0.1' if n == 'plain' else 'localhost'}:{ports[n]}"
            for n in listeners
        ),
        "listener.security.protocol.map": ",".join(
            [f"{n.upper()}:{kind}" for n, kind in listeners.items()] + ["CONTROLLER:PLAINTEXT"]
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config":
            f'{_PLAIN} username="admin" password="admin" {" ".join(users)};',
        "listener.name.login.scram-sha-512.sasl.jaas.config":
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker-all.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "message.max.bytes": str(60 * 1024 * 1024),
        "replica.fetch.max.bytes": str(60 * 1024 * 1024),
        "log.retention.check.interval.ms": "1000",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }  # fmt: skip
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _quoted(text: str) -> str:
    """As JAAS reads it, inside a properties file."""
    jaas = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + jaas.replace("\\", "\\\\") + '"'


def _certificates(folder: Path) -> None:
    """One authority; a broker and a client signed by it; and a stranger's authority."""
    names = folder / "names.cnf"
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for authority in ("ca", "stranger"):
        _openssl(
            folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
            f"/CN={authority}", "-keyout", f"{authority}-key.pem", "-out", f"{authority}.pem",
        )  # fmt: skip
    for name in ("broker", "client"):
        _openssl(
            folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}-key.pem", "-out", f"{name}.csr",
        )  # fmt: skip
        _openssl(
            folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
            "-CAcreateserial", "-days", "2", "-extfile", str(names), "-out", f"{name}.pem",
        )  # fmt: skip
    both = [(folder / name).read_text() for name in ("broker-key.pem", "broker.pem")]
    (folder / "broker-all.pem").write_text("".join(both))


def _openssl(folder: Path, *args: str) -> None:
    subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)


def _java(folder: Path, *args: str, timeout_s: float = 180) -> str:
    command = [*_command(), *args]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _command() -> list[str]:
    found = jars.fetched_files(jars.BUNDLES["broker"])
    assert found, "the broker's jars are missing: headrace jars fetch broker (make does it)"
    return [str(java.executable()), "-Xmx512m", "-cp", f"{found[0].parent}/*"]


def _started(folder: Path, ports: dict[str, int]) -> subprocess.Popen[bytes]:
    log = folder / "broker.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*_command(), "kafka.Kafka", str(folder / "server.properties")],
            cwd=folder, stdout=out, stderr=out,
        )  # fmt: skip
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        if all(listens(ports[n]) for n in ("plain", "login")) and _leads(ports["plain"]):
            return process
        time.sleep(0.1)
    process.kill()
    process.wait()
    raise AssertionError(f"the broker does not listen:\n{log.read_text()[-4000:]}")


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _leads(port: int) -> bool:
    """Whether every partition can be read: a broker that was killed first looks at its files."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    with contextlib.suppress(KafkaException):
        known = admin.list_topics(timeout=5).topics.values()
        return all(one.leader >= 0 for topic in known for one in topic.partitions.values())
    return False


def _free(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        found = []
        for _ in range(count):
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(int(one.getsockname()[1]))
        return found
