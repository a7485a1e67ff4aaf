"""`python -m headrace.web.main PROJECT [--profile NAME]`: the web process.

The supervisor starts and restarts it. It ends when its standard input is closed, so it never
outlives the supervisor. It writes `.headrace/web.json` once it listens.
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

from headrace import config, logs, process_identity
from headrace.config import Settings
from headrace.errors import ConfigError, Error, SetupError
from headrace.json_file import read_valid, write_json
from headrace.model.runs import Process
from headrace.model.state_paths import StatePaths
from headrace.model.web_settings import PORT, PORTS_TRIED, Listening, WebSettings
from headrace.web import app
from headrace.web.auth import security_headers
from headrace.web.connections import Connections
from headrace.web.overview_feed import stamp
from headrace.web.timeouts import connection_class
from headrace.web.visit import Site

NICE = 5  # on a busy machine the pipelines come first
KEEP_ALIVE_S = 30
SETTINGS_S = 2.0  # how often they are checked for changes

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
    places = StatePaths(settings.state)
    listener = bind(settings.web, last_port(places))
    web = replace(settings.web, port=listener.getsockname()[1])
    application = app.build(Site(replace(settings, web=web)))
    connections = Connections(web.proxies if web.behind_proxy else ())
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            log_config=None,
            access_log=False,  # auth.py logs, without query strings: they may contain a key
            server_header=False,
            date_header=False,
            proxy_headers=web.behind_proxy,
            forwarded_allow_ips=",".join(web.proxies) if web.behind_proxy else None,
            ssl_certfile=web.certificate,
            ssl_keyfile=web.key,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=64 * 1024,
            http=connection_class(connections, security_headers(web)),
            ws="none",
            loop="asyncio",
        )
    )
    me = process_identity.identify(os.getpid()) or Process(
        os.getpid(), 0.0, process_identity.boot_id()
    )
    listening = Listening(url_of(web), me.pid, me.started, me.boot, time.time())
    write_json(places.web, listening.to_json())
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(server, application.site, listener))


def url_of(web: WebSettings) -> str:
    name = web.hosts[0] if web.hosts else web.host
    host = f"[{name}]" if ":" in name else name
    scheme = "https" if web.certificate else "http"
    return f"{scheme}://{host}:{web.port}"


def check(web: WebSettings) -> None:
    """Refuses plain HTTP over a network, which would reveal the keys."""
    if not web.is_loopback and not web.is_secure:
        raise ConfigError(
            f"The web server would listen on {web.host} without TLS, which would expose the keys.",
            why="Plain HTTP is allowed only on 127.0.0.1.",
            where=f"{config.FILE}, [web]",
            fix="Set certificate and key; or set behind_proxy = true if a proxy terminates TLS; or "
            'set host = "127.0.0.1" and use an SSH tunnel.',
            slug="web-without-tls",
        )
    if bool(web.certificate) != bool(web.key):
        raise ConfigError(
            "certificate and key must be set together.",
            where=f"{config.FILE}, [web]",
            fix="Set both, or neither.",
            slug="web-tls",
        )


def last_port(places: StatePaths) -> int | None:
    """The previous port of this project's page: open browsers reconnect there."""
    return read_valid(places.web, lambda body: urlsplit(Listening.from_json(body).url).port)


def bind(web: WebSettings, last: int | None = None) -> socket.socket:
    """A listening socket: on the port in the settings, or the previous port, or a free one."""
    free = range(PORT, PORT + PORTS_TRIED)
    ports = [web.port] if web.port else [last, *free] if last else free
    family = socket.AF_INET6 if ":" in web.host else socket.AF_INET
    refused: OSError | None = None
    for port in ports:
        # With the protocol's number asyncio recognises TCP and disables Nagle's algorithm.
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
        f"The web server cannot listen on {web.host}, port {web.port or f'{PORT} to {free[-1]}'}.",
        why=str(refused),
        where=f"{config.FILE}, [web]",
        fix="Set [web] port to a free port, and check that host is an address of this machine.",
        slug="web-port",
    )


async def _serve(server: uvicorn.Server, site: Site, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True
        if site.feed is not None:
            _ending.add(loop.create_task(site.feed.end()))

    threading.Thread(target=_end_with_supervisor, args=(loop, end), daemon=True).start()
    watching = loop.create_task(_end_on_changed_settings(site.settings, end))
    await server.serve(sockets=[listener])
    watching.cancel()


async def _end_on_changed_settings(settings: Settings, end: Callable[[], None]) -> None:
    """The supervisor then starts the process again, with the new settings."""
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
            logger.warning("%s has changed, but is invalid: %s", path, exc.what)
            continue
        if fresh.raw != settings.raw:
            logger.info("%s has changed: restarting the page", path)
            end()
            return


_ending: set[asyncio.Task[None]] = set()  # a task without a reference may be garbage collected


def _end_with_supervisor(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
    """The supervisor holds the other end of stdin: end of file means that it has ended."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop is already closed
        loop.call_soon_threadsafe(end)
    time.sleep(5)
    os._exit(0)  # even if something blocks the loop


if __name__ == "__main__":
    sys.exit(main())
