"""`python -m headrace.web.main PROJECT [--profile NAME]`: the page as a process.

Started and restarted by the supervisor; ends when its standard input does, so never outlives it.
Writes `.headrace/web.json` once it listens.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.concurrency import run_in_threadpool

from headrace import config, logs, processes
from headrace.config import Settings
from headrace.errors import ConfigError, Error, SetupError, StoreError
from headrace.jsonfile import read_json, write_json
from headrace.model.places import Places
from headrace.model.runs import Process
from headrace.model.web import PORT, PORTS_TRIED, Listening, WebSettings
from headrace.web import app, protection
from headrace.web.connections import Connections
from headrace.web.gate import Gate
from headrace.web.patience import patient
from headrace.web.site import Site
from headrace.web.watch import stamp

NICE = 5  # where cores are short, the pipelines come first
SLOW_S = 30  # how long a connection is kept without a request
SETTINGS_S = 2.0  # how often it is looked whether they have changed

logger = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace.web.main", description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--profile", default=config.DEV)
    given = parser.parse_args(arguments)
    logs.configure()
    os.nice(NICE)
    try:
        settings = config.load(given.project, given.profile)
        serve(settings)
    except Error as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    return 0


def serve(settings: Settings) -> None:
    check(settings.web)
    listener = bound(settings.web, last_port(Places(settings.state)))
    web = replace(settings.web, port=listener.getsockname()[1])
    settings = replace(settings, web=web)
    places = Places(settings.state)
    gate = app.build(Site(settings))
    room = Connections(web.proxies if web.behind_proxy else ())
    server = uvicorn.Server(
        uvicorn.Config(
            gate,
            log_config=None,
            access_log=False,  # ours is in the gate: without queries, where a key may be
            server_header=False,
            date_header=False,
            proxy_headers=web.behind_proxy,
            forwarded_allow_ips=",".join(web.proxies) if web.behind_proxy else None,
            ssl_certfile=web.certificate,
            ssl_keyfile=web.key,
            timeout_keep_alive=SLOW_S,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=64 * 1024,
            http=patient(room, protection.headers(web)),
            ws="none",
            loop="asyncio",
        )
    )
    me = processes.identify(os.getpid()) or Process(os.getpid(), 0.0, processes.boot_id())
    told = Listening(url_of(web), me.pid, me.started, me.boot, time.time())
    write_json(places.web, told.to_json())
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(server, gate, listener))


def url_of(web: WebSettings) -> str:
    name = web.hosts[0] if web.hosts else web.host
    host = f"[{name}]" if ":" in name else name
    scheme = "https" if web.certificate else "http"
    return f"{scheme}://{host}:{web.port}"


def check(web: WebSettings) -> None:
    """Refuses what would give the keys away: plain HTTP over a network."""
    if not web.is_loopback and not web.is_secure:
        raise ConfigError(
            f"The page would listen on {web.host} without TLS: keys could be read on the way.",
            why="Plain HTTP is for this machine alone (127.0.0.1).",
            where=f"{config.FILE}, [web]",
            fix="set certificate and key, or behind_proxy = true if TLS ends at a proxy, or host = "
            '"127.0.0.1" and an SSH tunnel',
            slug="web-without-tls",
        )
    if bool(web.certificate) != bool(web.key):
        raise ConfigError(
            "certificate and key belong together.", where=f"{config.FILE}, [web]", slug="web-tls"
        )


def last_port(places: Places) -> int | None:
    """Where this project's page was before: open browsers still look there."""
    with contextlib.suppress(StoreError, TypeError, ValueError):
        body = read_json(places.web)
        return urlsplit(Listening.from_json(body).url).port if body else None
    return None


def bound(web: WebSettings, last: int | None = None) -> socket.socket:
    """A socket that listens: on the port that was asked for, or that it had, or on a free one."""
    free = range(PORT, PORT + PORTS_TRIED)
    ports = [web.port] if web.port else [last, *free] if last else free
    family = socket.AF_INET6 if ":" in web.host else socket.AF_INET
    refused: OSError | None = None
    for port in ports:
        # By its number: else asyncio does not know it for TCP, and waits to fill packets.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((web.host, port))
            listener.listen(128)
        except OSError as exc:
            listener.close()
            refused = exc
            continue
        listener.set_inheritable(False)
        return listener
    raise SetupError(
        f"The page cannot listen on {web.host}, port {web.port or f'{PORT} and the next ones'}.",
        why=str(refused),
        where=f"{config.FILE}, [web]",
        fix="set [web] port to a free one, or 0 for any",
        slug="web-port",
    )


async def _serve(server: uvicorn.Server, gate: Gate, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True
        if gate.site.watch is not None:
            _ending.add(loop.create_task(gate.site.watch.end()))

    waiting = threading.Thread(target=_until_alone, args=(loop, end), daemon=True)
    waiting.start()
    changing = loop.create_task(_until_changed(gate.site.settings, end))
    await server.serve(sockets=[listener])
    changing.cancel()


async def _until_changed(settings: Settings, end: Callable[[], None]) -> None:
    """Secrets to hide, names to ask: all is of the settings. Whoever keeps us starts us anew."""
    path = settings.project / config.FILE
    seen = stamp(path)
    while True:
        await asyncio.sleep(SETTINGS_S)
        if stamp(path) == seen:
            continue
        seen = stamp(path)
        try:
            fresh = await run_in_threadpool(config.load, settings.project, settings.profile)
        except Error as exc:
            logger.warning("%s has changed, and cannot be used: %s", path, exc.what)
            continue
        if fresh.raw != settings.raw:
            logger.info("%s has changed: the page starts anew with it", path)
            end()
            return


_ending: set[asyncio.Task[None]] = set()  # a task that nobody holds may vanish


def _until_alone(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
    """The supervisor holds the other end of stdin; it is gone when that ends."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # it is closed already
        loop.call_soon_threadsafe(end)
    time.sleep(5)
    os._exit(0)  # whatever holds it up


if __name__ == "__main__":
    sys.exit(main())
