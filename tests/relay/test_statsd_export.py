"""Metrics over StatsD, to a real UDP socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.metrics.metric import Family
from headrace.metrics.table import read_all
from headrace.project.workspace import Workspace, open_workspace
from headrace.relay import statsd_export
from headrace.relay.metric_facts import MetricSource
from headrace.relay.statsd_export import StatsdExport
from headrace.state import progress_exports
from metrics import pages

ROWS = "headrace.query.input_rows"


class Source(MetricSource):
    """Facts of the test's choice; the real one is tested in test_metric_facts.py."""

    rows = 30

    def families(self, work: Workspace) -> list[Family]:
        families = read_all(pages.full_facts())
        wanted = [f for f in families if f.metric.name == "headrace_query_input_rows_total"]
        sample = wanted[0].samples[0]
        return [Family(wanted[0].metric, (type(sample)(sample.labels, float(self.rows)),))]


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        found.settimeout(0.3)
        yield found


def project(folder: Path, receiver: socket.socket, more: str = "") -> Workspace:
    port = receiver.getsockname()[1]
    text = f'[metrics.statsd]\naddress = "127.0.0.1:{port}"\nevery = 1\n{more}'
    (folder / "headrace.toml").write_text(text)
    return open_workspace(folder, "dev")


def sent(receiver: socket.socket) -> list[str]:
    """The lines of all packets that have arrived: on loopback that is when `send` returns."""
    found = []
    while True:
        try:
            found += receiver.recv(65_536).decode().split("\n")
        except TimeoutError:
            return found


def run(source: Source, work: Workspace, *rows: int) -> StatsdExport:
    """One tick for each value, by a new process's exporter."""
    export = StatsdExport(source)
    for number in rows:
        source.rows = number
        export._due_at = 0.0  # the period is over
        assert export.tick(work) == []
    return export


def test_every_metric_arrives_in_packets_that_fit(
    tmp_path: Path, receiver: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = read_all(pages.full_facts())
    monkeypatch.setattr(Source, "families", lambda self, work: families)
    work = project(tmp_path, receiver)
    export = StatsdExport(Source())

    assert export.tick(work) == []
    found = sent(receiver)
    export.close()

    assert "headrace.pipeline.up:1|g|#pipeline:full" in found
    recorded = progress_exports.read(work.places, "statsd")
    assert recorded
    assert (recorded.sent, recorded.dropped, recorded.problem) == (len(found), 0, None)


def test_increases_are_counted_once_also_over_a_restart(
    tmp_path: Path, receiver: socket.socket
) -> None:
    work, source = project(tmp_path, receiver), Source()

    run(source, work, 30, 35).close()
    run(source, work, 47).close()

    tags = "|c|#pipeline:full,query:kept"
    assert sent(receiver) == [f"{ROWS}:5{tags}", f"{ROWS}:12{tags}"]


def test_an_increase_over_a_long_pause_or_under_other_names_is_not_sent(
    tmp_path: Path, receiver: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source()
    work = project(tmp_path, receiver)
    run(source, work, 30).close()
    other = project(tmp_path, receiver, 'tags = "none"\n')
    run(source, other, 40).close()
    monkeypatch.setattr(statsd_export, "KEPT_S", 0.0)
    run(source, other, 50, 51).close()

    assert sent(receiver) == [f"{ROWS}.full.kept:1|c"]


def test_a_receiver_that_is_away_is_reported_counted_and_not_waited_for(
    tmp_path: Path, receiver: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = read_all(pages.full_facts())
    monkeypatch.setattr(Source, "families", lambda self, work: families)
    work = project(tmp_path, receiver)
    receiver.close()
    export = StatsdExport(Source())
    deadline = time.monotonic() + 60
    problems: list[str] = []
    while not problems:  # the first packet only learns that nobody listens
        export._due_at = 0.0
        problems = export.tick(work)
        assert time.monotonic() < deadline
    export.close()

    assert "[metrics.statsd]: " in problems[0]
    assert "refused" in problems[0].lower()
    recorded = progress_exports.read(work.places, "statsd")
    assert recorded
    assert recorded.dropped > 0


def test_a_name_that_cannot_be_resolved_is_reported(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text('[metrics.statsd]\naddress = "nobody.invalid:8125"\n')

    (problem,) = StatsdExport(Source()).tick(open_workspace(tmp_path, "dev"))

    assert "nobody.invalid:8125" in problem


def test_without_the_table_nothing_is_sent(tmp_path: Path) -> None:
    work = open_workspace(tmp_path, "dev")

    assert StatsdExport(Source()).tick(work) == []
    assert progress_exports.read(work.places, "statsd") is None
