"""Metrics over OTLP, to a real HTTP server that decodes them. It also hangs, lies and misleads."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from opentelemetry.proto.metrics.v1 import metrics_pb2

from headrace.metrics import table
from headrace.metrics.metric import Family
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay import otlp_export
from headrace.relay.metric_facts import MetricSource
from headrace.relay.otlp_export import OtlpExport
from headrace.state import progress_exports
from metrics import pages


class Source(MetricSource):
    def families(self, work: Workspace) -> list[Family]:
        return table.read_all(pages.full_facts())


class Collector:
    """Keeps decoded requests; `answer` writes the reply."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], service.ExportMetricsServiceRequest]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = accept
        self.released = threading.Event()
        collector = self

        class Request(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                decoded = service.ExportMetricsServiceRequest.FromString(gzip.decompress(body))
                headers = {name.lower(): value for name, value in self.headers.items()}
                collector.got.append((self.path, headers, decoded))
                collector.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/metrics"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


def accept(
    request: BaseHTTPRequestHandler, status: int = 200, body: bytes = b"", **headers: str
) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.released.set()
    found.server.shutdown()
    found.server.server_close()


def project(folder: Path, collector: Collector, more: str = "") -> Workspace:
    text = f'[project]\nname = "shop"\n[metrics.otlp]\nendpoint = "{collector.url}"\n{more}'
    (folder / "headrace.toml").write_text(text)
    return open_workspace(folder, "dev")


def export(work: Workspace) -> list[str]:
    made = OtlpExport(Source())
    try:
        return made.tick(work)
    finally:
        made.close()


def counts(work: Workspace) -> tuple[int, int]:
    found = progress_exports.read(work.places, "otlp")
    assert found
    return found.sent, found.dropped


def check(request: service.ExportMetricsServiceRequest) -> dict[str, metrics_pb2.Metric]:
    """The rules of opentelemetry-proto that a receiver relies on. Returns the metrics by name."""
    (of_project,) = request.resource_metrics
    (scope,) = of_project.scope_metrics
    found = {metric.name: metric for metric in scope.metrics}
    assert len(found) == len(scope.metrics), "names are unique"
    for metric in scope.metrics:
        assert metric.description
        kind = metric.WhichOneof("data")
        points = getattr(metric, kind).data_points
        series = [
            tuple(sorted((a.key, a.value.string_value) for a in p.attributes)) for p in points
        ]
        assert points, "no metric without a point"
        assert len(set(series)) == len(series), "series are unique"
        assert all(point.time_unix_nano > 1_600_000_000 * 10**9 for point in points)
        if kind == "sum":
            assert metric.sum.is_monotonic
            assert metric.sum.aggregation_temporality == 2, "cumulative"
            assert all(point.WhichOneof("value") == "as_double" for point in points)
            assert all(point.as_double >= 0 for point in points)
        elif kind == "histogram":
            assert metric.histogram.aggregation_temporality == 2
            for point in points:
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                assert sum(point.bucket_counts) == point.count
                assert all(a < b for a, b in pairwise(point.explicit_bounds))
                assert not point.HasField("min")
        else:
            assert kind == "gauge"
    return found


def test_a_receiver_gets_well_formed_metrics(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTLP_KEY", "hunter2")
    work = project(tmp_path, collector, 'headers = { Api-Key = "${env:OTLP_KEY}" }\n')

    assert export(work) == []
    ((path, headers, request),) = collector.got
    found = check(request)

    assert path == "/v1/metrics"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["api-key"] == "hunter2"
    assert len(found) == len(table.METRICS)
    assert found["headrace.query.input_rows"].sum.data_points[0].as_double == 30
    assert found["headrace.query.input_rows"].unit == "{rows}"
    assert found["headrace.query.batch_duration_seconds"].unit == "s"
    resource = {
        a.key: a.value.string_value for a in request.resource_metrics[0].resource.attributes
    }
    assert resource["service.name"] == "headrace"
    assert resource["service.namespace"] == "shop"
    assert counts(work) == (sum(len(one.samples) for one in Source().families(work)), 0)


def test_the_checker_finds_a_histogram_that_does_not_add_up(
    tmp_path: Path, collector: Collector
) -> None:
    export(project(tmp_path, collector))
    request = collector.got[0][2]
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    histogram = next(one for one in metrics if one.WhichOneof("data") == "histogram")
    histogram.histogram.data_points[0].count += 1

    with pytest.raises(AssertionError):
        check(request)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda r: accept(r, 503, b"busy"), "503 Service Unavailable: busy"),
        (lambda r: accept(r, 404, b"<html>"), "404 Not Found"),
        (lambda r: accept(r, 307, Location="http://127.0.0.1:1/"), "307"),
        (lambda r: r.wfile.write(b"\0" * 4096), "Error"),
        (lambda r: accept(r, 500, b"x" * 10_000_000), "500"),
    ],
)
def test_a_request_that_fails_is_reported_and_counted(
    tmp_path: Path, collector: Collector, answer: Callable[[Any], None], words: str
) -> None:
    collector.answer = answer
    work = project(tmp_path, collector)

    (problem,) = export(work)

    assert problem.startswith("[metrics.otlp]: ")
    assert words in problem
    assert len(problem) < 500
    assert len(collector.got) == 1
    assert counts(work)[1] > 40


def test_an_endpoint_that_hangs_costs_a_bounded_time(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_export, "TIMEOUT_S", 0.3)
    collector.answer = lambda request: collector.released.wait(120) and None

    (problem,) = export(project(tmp_path, collector))

    assert "Timeout" in problem


def test_a_reply_of_10_mb_is_not_read(tmp_path: Path, collector: Collector) -> None:
    collector.answer = lambda request: accept(request, 200, b"x" * 10_000_000)

    assert export(project(tmp_path, collector)) == []


def test_data_points_that_the_receiver_refuses_are_counted(
    tmp_path: Path, collector: Collector
) -> None:
    reply = service.ExportMetricsServiceResponse()
    reply.partial_success.rejected_data_points = 7
    reply.partial_success.error_message = "too old"
    collector.answer = lambda request: accept(request, 200, reply.SerializeToString())
    work = project(tmp_path, collector)

    (problem,) = export(work)

    assert "refused 7 data points: too old" in problem
    assert counts(work)[1] == 7


def test_a_missing_secret_is_reported_and_none_is_shown(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = 'headers = { Api-Key = "${env:OTLP_KEY}" }\n'
    work = project(tmp_path, collector, more)
    (problem,) = export(work)
    assert "OTLP_KEY is not set" in problem

    monkeypatch.setenv("OTLP_KEY", "hunter2hunter2")
    collector.answer = lambda request: accept(request, 401, b"bad key hunter2hunter2")
    (problem,) = export(work)
    assert "401" in problem
    texts = [problem, *(path.read_text() for path in work.places.exports.glob("*"))]
    assert not [text for text in texts if "hunter2" in text]
