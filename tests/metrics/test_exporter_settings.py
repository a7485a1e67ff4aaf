"""`[metrics.…]` in headrace.toml: every mistake is named with its line and the closest word."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace import config
from headrace.errors import Error, each_of
from headrace.metrics import exporters
from headrace.metrics.exporters import Address, parse_address
from headrace.project import system_topics


def problems(folder: Path, text: str) -> list[Error]:
    (folder / "headrace.toml").write_text(text)
    try:
        system_topics.check(config.load(folder))
    except Error as exc:
        return list(each_of(exc))
    return []


def test_every_exporter_has_defaults(tmp_path: Path) -> None:
    assert problems(tmp_path, "[metrics.prometheus]\n[metrics.statsd]\n[metrics.otlp]\n") == []

    settings = config.load(tmp_path)
    page, statsd = exporters.prometheus(settings), exporters.statsd(settings)
    otlp = exporters.otlp(settings)
    assert page
    assert statsd
    assert otlp
    assert str(page.address) == "127.0.0.1:9464"
    assert (statsd.address, statsd.tags, statsd.prefix) == ("127.0.0.1:8125", "datadog", "headrace")
    assert otlp.endpoint == "http://127.0.0.1:4318/v1/metrics"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[metrics.promtheus]", ["Unknown setting 'promtheus' in [metrics]", "prometheus"]),
        ('[metrics.prometheus]\nlisen = "x"', ["prometheus has no field 'lisen'", "'listen'"]),
        ('[metrics.prometheus]\nlisten = "9464"', ["Invalid listen: '9464'", "127.0.0.1:9464"]),
        ('[metrics.prometheus]\nlisten = "h:99999"', ["Invalid listen"]),
        ("[metrics.prometheus]\nlisten = 9464", ["Invalid listen: 9464"]),
        ('[metrics.prometheus]\nlisten = "0.0.0.0:9464"', ["Other machines can reach", "token"]),
        ('[metrics.prometheus]\ntoken = "hunter2"', ["token contains a secret in plain text"]),
        ('[metrics.prometheus]\nhosts = "a"', ["Invalid hosts", "list"]),
        ('[metrics.statsd]\naddress = "nohost"', ["Invalid address: 'nohost'"]),
        ('[metrics.statsd]\ntags = "datdog"', ["Unknown tags 'datdog'", "datadog"]),
        ('[metrics.statsd]\nprefix = "a b"', ["Invalid prefix"]),
        ('[metrics.statsd]\nevery = "soon"', ["soon"]),
        ('[metrics.statsd]\nevery = "2 days"', ["between 1 second and 1 hour"]),
        ('[metrics.otlp]\nendpoint = "collector:4318"', ["Invalid endpoint", "http"]),
        ('[metrics.otlp]\nheaders = { Key = "hunter2" }', ["Key contains a secret in plain text"]),
        ('[metrics.otlp]\nheaders = { "a b" = "${env:X}" }', ["Invalid header 'a b'"]),
        ("[metrics.otlp]\nheaders = 1", ["Invalid headers"]),
        ("metrics.otlp = 1", ["Invalid value for metrics.otlp"]),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, words: list[str]) -> None:
    (found,) = problems(tmp_path, text + "\n")

    said = f"{found.what} {found.why} {found.fix}"
    assert [word for word in words if word not in said] == []
    assert str(found.where).startswith("headrace.toml:")
    assert "hunter2" not in said


def test_mistakes_of_several_exporters_are_reported_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, '[metrics.prometheus]\nx = 1\n[metrics.statsd]\ntags = "y"\n')

    assert len(found) == 2


def test_a_missing_extra_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"
    monkeypatch.setitem(sys.modules, name, None)

    (found,) = problems(tmp_path, "[metrics.otlp]\n")

    assert (found.code, found.fix) == ("missing-extra", 'pip install "headrace[otel]"')


@pytest.mark.parametrize(
    ("text", "address", "is_loopback"),
    [
        ("127.0.0.1:1", Address("127.0.0.1", 1), True),
        ("localhost:9464", Address("localhost", 9464), True),
        ("[::1]:9464", Address("::1", 9464), True),
        ("192.0.2.1:80", Address("192.0.2.1", 80), False),
        ("statsd.example.org:8125", Address("statsd.example.org", 8125), False),
    ],
)
def test_addresses_are_read(text: str, address: Address, is_loopback: bool) -> None:
    found = parse_address("listen", text)

    assert (found, str(found), found.is_loopback) == (address, text, is_loopback)
