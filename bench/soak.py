"""Ten minutes of looking: two windows of a real Chromium on the page of a real running demo.

Memory of the page's process and of the browser's heap (after a collection, so that what is counted
is kept), minute by minute; and what each page weighs when it is opened with nothing in the cache.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, Page

from bench import tree
from bench.machine import REPO
from headrace.json_file import read_json
from headrace.model.state_paths import StatePaths

sys.path.insert(0, str(REPO / "tests"))
import browsing  # the browser of the tests

LENGTH_S = 600.0
EVERY_S = 60.0
START_S = 300.0
WATCHED = {"overview": "/", "pipeline": "/pipelines/metrics"}
WEIGHED = {
    **WATCHED,
    "live result": "/live/metrics.logins",
    "SQL": "/sql",
    "quarantine": "/quarantine",
    "checkpoints": "/checkpoints",
    "alerts": "/alerts",
    "audit": "/audit",
}


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """One round, whatever was asked for: its length is what it is about."""
    said = folder / "said"
    command = [sys.executable, "-m", "headrace", "demo", "--dir", str(folder / "project")]
    with said.open("wb") as words:
        demo = subprocess.Popen(command, env=tree.environment(), stdout=words, stderr=words)
    link = _awaited(demo, said, r"page: (http\S+)")
    _awaited(demo, said, r"(running: )")
    told = read_json(StatePaths(folder / "project" / ".headrace").web) or {}
    web = psutil.Process(int(told["pid"]))
    with browsing.chromium() as browser:
        one = {"round": 1, **_looked(browser, link, web)}
    print(f"soak: {json.dumps(one)}", flush=True)
    return [one]


def _awaited(demo: subprocess.Popen[bytes], said: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_S
    while not (found := re.search(pattern, said.read_text())):
        if demo.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the demo does not say {pattern!r}: {tree.tail(said)}")
        time.sleep(0.2)
    return str(found[1])


def _looked(browser: Browser, link: str, web: psutil.Process) -> dict[str, Any]:
    url = link.partition("/?")[0]
    first = browsing.watched(browser)
    first.page.goto(link)
    weights = {name: _weight(first.page, url + path) for name, path in WEIGHED.items()}
    windows = {name: first.page.context.new_page() for name in WATCHED}
    for name, page in windows.items():
        page.goto(url + WATCHED[name])
    samples = []
    for minute in range(int(LENGTH_S / EVERY_S) + 1):
        if minute:
            first.page.wait_for_timeout(EVERY_S * 1000)
        heaps = {name: round(_heap_mb(page), 2) for name, page in windows.items()}
        samples.append({"web_mb": round(web.memory_info().rss / 1e6, 1), "heap_mb": heaps})
    first.check()
    return {"weights": weights, "samples": samples}


def _weight(page: Page, url: str) -> dict[str, float]:
    """Of one opening, with nothing in the cache, until its data and charts are there."""
    cdp = page.context.new_cdp_session(page)
    cdp.send("Network.enable")
    cdp.send("Network.setCacheDisabled", {"cacheDisabled": True})
    seen: list[str] = []
    received: list[float] = []
    cdp.on("Network.responseReceived", lambda event: seen.append(event["requestId"]))
    cdp.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    page.goto(url)
    page.wait_for_function("() => !document.querySelector('main').innerText.includes('Loading…')")
    page.wait_for_timeout(2000)
    cdp.detach()
    return {"requests": len(seen), "kb": round(sum(received) / 1000, 1)}


def _heap_mb(page: Page) -> float:
    cdp = page.context.new_cdp_session(page)
    cdp.send("HeapProfiler.collectGarbage")
    cdp.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    cdp.detach()
    return float(metrics["JSHeapUsedSize"]) / 1e6
