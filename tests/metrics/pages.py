"""Facts with a value for every metric, and pages of Prometheus as numbers."""

from __future__ import annotations

import re
import socket
import time
import urllib.request

from headrace.metrics.facts import DriverFacts, Facts, PipelineFacts, QueryFacts
from headrace.model.findings import Finding
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.progress_exports import Export
from headrace.model.status import PipelineStatus, QueryStatus
from headrace.store.totals import DurationCount, QueryTotals

_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Page = dict[tuple[str, frozenset[tuple[str, str]]], float]


def full_facts(now: float | None = None, pipeline: str = "full") -> Facts:
    now = time.time() if now is None else now
    kept = QueryStatus(
        "kept", "running", input_rate=2.0, processing_rate=3.0, fresh_p50_ms=100.0,
        fresh_p99_ms=900.0, fresh_within_s=60.0, findings=(Finding("late-rows", "Rows are late."),),
    )  # fmt: skip
    totals = QueryTotals(pipeline, "kept", now, 3, 30, 20, 4, 5, 6, 700, now - 9, 250.0)
    durations = [DurationCount(250, 2, 300.0), DurationCount(5000, 1, 4000.0)]
    part = PartitionLag("t", 0, next=1, low=0, high=9, waits_s=5.0, kept_s=100.0)
    lag = QueryLag(pipeline, "kept", now, (part,))
    status = PipelineStatus(
        pipeline, "running", "", run="r", pid=1, since=now - 60, queries=(kept,)
    )
    one = PipelineFacts(
        status, [QueryFacts("kept", kept, totals, durations, lag)], 2, {"data": 1},
        DriverFacts(100, 1000, 5000, 1.5, 10**12),
    )  # fmt: skip
    alerts = {(pipeline, "error"): 2, ("", "warning"): 1}
    return Facts(
        now, "1.0", "shop", "dev", True, [one], alerts, [Export("kafka", sent=3, dropped=1)]
    )


def parse(text: str) -> Page:
    """Every series of a page in Prometheus's text format."""
    found: Page = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = _LINE.fullmatch(line)
            assert match, line
            series = match[1], frozenset(_LABEL.findall(match[2] or ""))
            assert series not in found, line
            found[series] = float(match[3])
    return found


def value(page: Page, name: str, **labels: str) -> float | None:
    return page.get((name, frozenset(labels.items())))


def read(port: int) -> Page:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as reply:
        return parse(reply.read().decode())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
