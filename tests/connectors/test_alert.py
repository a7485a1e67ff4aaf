"""Alert rows without Spark: collapsing, titles, lines, files, and how an alert is refused."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import config
from headrace.connectors import alert as sink
from headrace.connectors import alert_rows
from headrace.connectors.alert_rows import AlertBatch, AlertTemplate
from headrace.errors import ConnectorError, Error
from headrace.model.alerts import SEVERITIES, AlertRow

BATCH = AlertBatch("86222327-93f0", 7, 1000.0)
SHAPE = AlertTemplate(("c",), "Cluster {c}: load {load}", "critical", None, None)


def lines(*rows: dict[str, Any], shape: AlertTemplate = SHAPE) -> list[AlertRow]:
    return alert_rows.lines(rows, shape, BATCH)


def row(c: Any, load: float = 99.0, resolved: bool = False) -> dict[str, Any]:
    return {"c": c, "load": load, "resolved": resolved}


def test_rows_of_a_key_that_say_the_same_are_one_line() -> None:
    found = lines(row(1, 91), row(2), row(1, 92), row(1, 5, True), row(1, 93), row(1, 94))

    assert [(r.key, r.row, r.count, r.resolved, r.title) for r in found] == [
        (("1",), 0, 2, False, "Cluster 1: load 92"),
        (("2",), 1, 1, False, "Cluster 2: load 99.0"),
        (("1",), 3, 1, True, "Cluster 1: load 5"),
        (("1",), 4, 2, False, "Cluster 1: load 94"),
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40))
def test_every_row_is_counted_and_every_key_ends_as_its_last_row(
    given: list[tuple[int, bool]],
) -> None:
    found = lines(*(row(c, resolved=is_over) for c, is_over in given))

    assert sum(line.count for line in found) == len(given)
    ends = {line.key[0]: line.resolved for line in found}
    assert ends == {str(c): is_over for c, is_over in given}


def test_a_line_says_everything_and_comes_back_the_same() -> None:
    shape = AlertTemplate(("c", "n"), "{c}", "error", 60.0, "at")
    seen = datetime(2026, 1, 1, 10, tzinfo=timezone(timedelta(hours=2)))

    (line,) = lines({"c": 1, "n": None, "at": seen, "resolved": False}, shape=shape)

    assert AlertRow.from_line(line.to_line()) == line
    assert line.key == ("1", "null")
    assert (line.query_id, line.batch, line.severity) == ("86222327-93f0", 7, "error")
    assert (line.at, line.told_at, line.resolve_after_s) == (1767254400.0, 1000.0, 60.0)
    assert line.data == {"c": 1, "n": None, "at": "2026-01-01 08:00:00Z"}


def test_without_a_time_of_its_own_it_is_the_batchs() -> None:
    shape = AlertTemplate(("c",), "t", "info", at="at")

    assert lines({"c": 1, "at": None}, shape=shape)[0].at == 1000.0


@pytest.mark.parametrize(
    ("title", "value", "wanted"),
    [
        ("{v:.1f} %", 99.96, "100.0 %"),
        ("{v:.1f}", None, "null"),
        ("{v:.1f}", "x", "x"),
        ("{{{v}}}", 1, "{1}"),
        ("{v:%H:%M}", datetime(2026, 1, 1, 10, 5, tzinfo=UTC), "10:05"),
        ("{v}", date(2026, 1, 1), "2026-01-01"),
        ("{v}", True, "true"),
        ("{v}", b"\xff", "\\xff"),
        ("{v}", "two\nlines", "two lines"),
        ("{v}", [1, {"a": None}], '[1, {"a": null}]'),
    ],
)
def test_a_title_says_values_as_people_read_them(title: str, value: Any, wanted: str) -> None:
    assert alert_rows.format_title(title, {"v": value}) == wanted


VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.binary(), st.datetimes(),
        st.text(st.characters()), st.decimals(), st.dates(), st.timedeltas(),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(VALUES)
def test_no_value_is_too_odd(value: Any) -> None:
    (line,) = lines({"c": value, "load": value}, shape=SHAPE)

    again = AlertRow.from_line(line.to_line())
    assert again == line
    again.title.encode()


def test_long_rows_are_cut() -> None:
    wide = {"c": "k" * 10_000} | {f"n{n}": "x" * 10_000 for n in range(50)}

    (line,) = lines(wide, shape=AlertTemplate(("c",), "{c}{c}", "info"))

    assert len(line.to_line()) < 12_000
    assert line.data["trimmed"] is True
    assert len(line.title) == alert_rows.TITLE_CHARS_MAX


def test_a_batch_of_large_rows_keeps_titles_and_drops_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alert_rows, "BATCH_CHARS_MAX", 30)

    found = lines(row(1), row(2), row(3))

    assert [line.data.get("trimmed") for line in found] == [None, True, True]
    assert len({line.title for line in found}) == 3


def test_a_time_that_python_cannot_hold_is_text() -> None:
    far = pa.array([2**58], pa.timestamp("us", "UTC"))

    (found,) = alert_rows.rows_of(pa.table({"at": far, "d": pa.array([Decimal("1.5")])}))

    assert found["at"].startswith("1110")
    assert found["d"] == Decimal("1.5")


def test_rows_left_out_are_an_alert_of_their_own() -> None:
    line = alert_rows.truncation_alert(BATCH, 100_000)

    assert AlertRow.from_line(line.to_line()) == line
    assert line.left_out
    assert line.severity in SEVERITIES
    assert "More than 100,000 alert rows in batch 7" in line.title


# ---- the file


def test_a_batch_is_one_file_and_another_life_has_another(tmp_path: Path) -> None:
    folder = tmp_path / "alerts/p/q"
    sink.write(folder, BATCH, [])
    assert not folder.exists()

    sink.write(folder, BATCH, lines(row(1)))
    sink.write(folder, BATCH, lines(row(1)))
    sink.write(folder, AlertBatch("aaaaaaaa-1", 7, 1.0), lines(row(2)))

    names = sorted(path.name for path in folder.iterdir())
    assert names == ["7-86222327.jsonl", "7-aaaaaaaa.jsonl"]
    assert (folder / names[0]).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "change",
    [
        {"batch": -1}, {"batch": True}, {"key": []}, {"key": "x"}, {"severity": "odd"},
        {"at": math.inf}, {"at": "now"}, {"count": 0}, {"data": None}, {"title": 7},
        {"resolved": None}, {"query_id": ""},
    ],
)  # fmt: skip
def test_a_strange_line_is_refused(change: dict[str, Any]) -> None:
    body = {**json.loads(lines(row(1))[0].to_line()), **change}

    with pytest.raises(ValueError, match=next(iter(change))):
        AlertRow.from_line(json.dumps(body))


@pytest.mark.parametrize("line", ["", "7", "[]", '{"a"', "[" * 100_000])
def test_what_is_no_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        AlertRow.from_line(line)


# ---- the connector


def test_its_folder_is_below_the_state(tmp_path: Path) -> None:
    made = hr.alert(key="c", title="t").bind_to_query(
        config.load(tmp_path), "metrics", "overloaded"
    )

    assert made.path == str(tmp_path.resolve() / ".headrace/alerts/metrics/overloaded")
    assert "path" not in made.fields()


COLUMNS = {"cluster_id": "int", "load": "double", "seen": "timestamp", "tags": "map<string,int>"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"key": "cluster"},
            "key refers to an unknown column, 'cluster'; did you mean 'cluster_id'?",
        ),
        ({"title": "{lode}"}, "title refers to an unknown column, 'lode'; did you mean 'load'?"),
        ({"at": "sean"}, "did you mean 'seen'?"),
        ({"at": "load"}, "must name a timestamp column"),
        ({"key": "tags"}, "keys must be simple values"),
    ],
)
def test_columns_that_will_not_do_are_named(given: dict[str, Any], words: str) -> None:
    made = hr.alert(**{"key": "cluster_id", "title": "t", **given})

    assert words in str(made.sink_problem(COLUMNS))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"severity": "critcal"}, 'Write severity="critical".'),
        ({"title": "{load"}, "Invalid title"),
        ({"title": "{}"}, "only a column name"),
        ({"title": "{load!r}"}, "only a column name"),
        ({"title": " "}, "empty"),
        ({"key": ()}, "needs a key"),
        ({"clear": 7}, "Invalid clear: 7"),
        ({"resolve_after": "soon"}, "Invalid duration"),
    ],
)
def test_an_alert_that_cannot_be_is_refused_when_made(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Error) as caught:
        hr.alert(**{"key": "cluster_id", "title": "t", **given})

    assert words in str(caught.value)


def test_a_sink_without_a_query_has_no_folder() -> None:
    writer: Any = object()

    with pytest.raises(ConnectorError, match="no folder"):
        hr.alert(key="c", title="t").configure(writer, "append")
