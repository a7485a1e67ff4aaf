"""What the exporters of metrics cost: records per second with all of them on, and off, in one run.

`headrace up` on the pipeline of `overhead.py`. While it runs, headrace.toml switches the exporters
on and off: Prometheus, scraped every 5 seconds, StatsD and OTLP, both sent every 5 seconds. So both
sides have the same JVM, and nothing but the exporters differs.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench import feed, machine, steady
from bench.figures import per_second
from bench.overhead import FILES_MAX, MAX_FILES, ROWS_PER_FILE, ROWS_PER_SECOND_MAX
from bench.sides import Load, Running, runs_of, through_headrace

SETTLE_S = 5.0  # until the relay has read the settings, and what it did because of them is over
SWITCH_S = 60.0
EVERY_S = 5.0  # more often than is usual

TABLES = """
[metrics.prometheus]
listen = "127.0.0.1:{page}"
[metrics.statsd]
address = "127.0.0.1:{statsd}"
every = "5 seconds"
[metrics.otlp]
endpoint = "http://127.0.0.1:{otlp}/v1/metrics"
every = "5 seconds"
"""


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    load = Load(_feed(folder, rounds, seconds), MAX_FILES)
    home = folder / "exporters"
    found = []
    with receivers() as them, through_headrace(home, load) as running:
        bare = (home / "headrace.toml").read_text()
        steady.measure(running, min(seconds, 10.0))  # the warm-up
        for number in range(1, rounds + 1):
            order = ("on", "off") if number % 2 else ("off", "on")
            one: dict[str, Any] = {"round": number, "order": list(order)}
            for side in order:
                (home / "headrace.toml").write_text(bare + them.tables * (side == "on"))
                them.await_page(is_there=side == "on")
                machine.settle(SETTLE_S)
                one[side] = _window(running, load, them, seconds)
            if not one["on"]["received"] or one["off"]["received"]:
                raise AssertionError(f"the exporters were not switched: {one}")
            ratio = per_second(one["on"]) / per_second(one["off"])
            print(f"exporters {number}/{rounds}: ratio {ratio:.3f} {one}", flush=True)
            found.append(one)
        if len(runs := runs_of(home)) != 1:
            raise AssertionError(f"it was restarted while it was measured: {runs}")
    return found


def _feed(folder: Path, rounds: int, seconds: float) -> feed.Feed:
    lasts_s = 90.0 + rounds * 2 * (seconds + SETTLE_S + 10.0)
    rate = ROWS_PER_SECOND_MAX * machine.cores()
    files = feed.files_for(lasts_s, rate, ROWS_PER_FILE, FILES_MAX)
    return feed.make(folder / "feed", files=files, rows_per_file=ROWS_PER_FILE)


def _window(running: Running, load: Load, them: Receivers, seconds: float) -> dict[str, Any]:
    before = them.received
    span = steady.window(running, seconds)
    figures = steady.raw(span, load.feed, running.checkpoint)
    return {**figures, "received": them.received - before}


@dataclass
class Receivers:
    """A scraper, a StatsD server and a collector in this process. They throw everything away."""

    page: int
    statsd: int
    otlp: int
    received: int = 0

    @property
    def tables(self) -> str:
        return TABLES.format(page=self.page, statsd=self.statsd, otlp=self.otlp)

    def scrape(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/metrics", timeout=10) as it:
                is_read = b"headrace_query_batches_total" in it.read()
        except OSError:
            return False
        self.received += is_read
        return is_read

    def await_page(self, *, is_there: bool) -> None:
        deadline = time.monotonic() + SWITCH_S
        while self.scrape() is not is_there:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the page for Prometheus is {'not ' * is_there}there")
            time.sleep(0.5)


@contextlib.contextmanager
def receivers() -> Iterator[Receivers]:
    over = threading.Event()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    datagrams.settimeout(1.0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        page = free.getsockname()[1]

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            them.received += 1
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    them = Receivers(page, datagrams.getsockname()[1], collector.server_address[1])

    def scrape() -> None:
        while not over.wait(EVERY_S):
            them.scrape()

    def read() -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                them.received += bool(datagrams.recv(65_536))

    works = (scrape, read, collector.serve_forever)
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield them
    finally:
        over.set()
        collector.shutdown()
        collector.server_close()
        for thread in threads:
            thread.join(20)
        datagrams.close()
