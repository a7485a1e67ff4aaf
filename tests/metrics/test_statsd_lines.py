"""StatsD lines: the published grammar, increases of counters, packets that fit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from headrace.metrics import statsd_lines, table
from headrace.metrics.metric import Family, Kind, Metric, Sample
from headrace.metrics.statsd_lines import PACKET_BYTES_MAX
from metrics import pages

# <NAME>:<VALUE>|<TYPE>[|#<TAG>:<VALUE>,…]
LINE = re.compile(r"[A-Za-z0-9_.-]+:-?\d+(\.\d+)?\|[cg](\|#[a-z]+:[^|,#\s]+(,[a-z]+:[^|,#\s]+)*)?")


def metric(kind: Kind, *samples: Sample) -> Family:
    name = "headrace_query_rows_total" if kind is Kind.COUNTER else "headrace_query_rows"
    return Family(Metric(name, kind, "Rows.", ("pipeline",), "rows", lambda _: ()), samples)


def lines(
    *families: Family, before: dict[str, float] | None = None, tags: bool = True
) -> list[str]:
    found = statsd_lines.write(families, "headrace", has_tags=tags, before=before)
    return list(found.lines)


@pytest.mark.parametrize("has_tags", [True, False])
def test_every_line_has_the_published_form(has_tags: bool) -> None:
    families = table.read_all(pages.full_facts(pipeline="a|b,c#d: e\n"))
    found = statsd_lines.write(families, "headrace", has_tags=has_tags, before={})

    assert len(found.lines) > 40
    assert [line for line in found.lines if not LINE.fullmatch(line)] == []
    assert has_tags is any("|#" in line for line in found.lines)


def test_a_counter_is_sent_as_its_increase() -> None:
    first = statsd_lines.write(
        [metric(Kind.COUNTER, Sample(("a",), 10.0))], "headrace", has_tags=True, before=None
    )
    both = metric(Kind.COUNTER, Sample(("a",), 12.0), Sample(("new",), 5.0))

    assert first.lines == (), "what was counted before the first packet is not an increase"
    assert lines(both, before=dict(first.counters)) == [
        "headrace.query.rows:2|c|#pipeline:a",
        "headrace.query.rows:5|c|#pipeline:new",
    ]
    again = statsd_lines.write([both], "headrace", has_tags=True, before=first.counters)
    assert lines(both, before=dict(again.counters)) == []


def test_a_counter_that_was_reset_starts_at_0() -> None:
    before = {"headrace.query.rows|#pipeline:a": 100.0}

    found = lines(metric(Kind.COUNTER, Sample(("a",), 3.0)), before=before)

    assert found == ["headrace.query.rows:3|c|#pipeline:a"]


def test_without_tags_labels_are_parts_of_the_name() -> None:
    one = metric(Kind.GAUGE, Sample(("or.ders/x",), 1.5))

    assert lines(one, tags=False) == ["headrace.query.rows.or_ders_x:1.5|g"]
    assert statsd_lines.write([one], "", has_tags=True, before=None).lines == (
        "query.rows:1.5|g|#pipeline:or.ders/x",
    )


def test_a_negative_gauge_is_set_and_not_subtracted() -> None:
    assert lines(metric(Kind.GAUGE, Sample(("a",), -2.0))) == [
        "headrace.query.rows:0|g|#pipeline:a",
        "headrace.query.rows:-2|g|#pipeline:a",
    ]


def test_large_values_keep_their_digits() -> None:
    at = 1_790_000_123.456

    assert lines(metric(Kind.GAUGE, Sample(("a",), at)))[0].startswith(f"headrace.query.rows:{at}|")


def test_packets_fit_and_lose_no_line() -> None:
    some = [f"headrace.x:{n}|c|#pipeline:{'p' * (n % 90)}" for n in range(500)]

    packets = list(statsd_lines.pack(some))

    assert max(len(packet) for packet, _ in packets) <= PACKET_BYTES_MAX
    assert b"\n".join(packet for packet, _ in packets).decode().split("\n") == some
    assert [count for _, count in packets] == [packet.count(b"\n") + 1 for packet, _ in packets]


def test_labels_without_a_value_are_left_out() -> None:
    facts = replace(pages.full_facts(), pipelines=[])
    found = statsd_lines.write(table.read_all(facts), "headrace", has_tags=True, before={})

    assert "headrace.alerts.open:1|g|#severity:warning" in found.lines
