"""What a display shows, without Spark: nothing of the user's data gets out of its cell."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from headrace.errors import ConnectorError
from headrace.failures.classifier import FailureText, classify
from headrace.model.progress import from_spark
from headrace.notebook import cell_text, chart, rate_chart, renderer
from headrace.notebook.cell_text import Rows
from headrace.notebook.display_options import DisplayOptions, parse_options
from headrace.notebook.renderer import Condition

EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</td></tr></table><h1>out</h1>",
    "]]></svg><script>1</script>",
    "&lt;b&gt; &amp; &#60;",
    "$x^2$ \\(y\\)",
    "a\x00b\x1b[31mred\x07",
    "half \ud800 pair",
    "\u202egnp.exe",
    "line\nbreak\r\n\ttab",
    "‏עברית",
    "",
]
ALLOWED = {"div", "b", "i", "span", "p", "img", "table", "thead", "tbody", "tr", "th", "td",
           "details", "summary", "pre"}  # fmt: skip


class Tags(HTMLParser):
    """Every tag and attribute of a page; complains about what is left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "img":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def drawings(html: str) -> list[str]:
    """The SVGs inside, each well-formed."""
    found = re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", html)
    texts = [base64.b64decode(one).decode() for one in found]
    for text in texts:
        ElementTree.fromstring(text)  # noqa: S314 (our own)
    return texts


def rows(*values: tuple[Any, ...], names: str = "x y", kinds: str = "string int") -> Rows:
    return Rows(tuple(names.split()), tuple(kinds.split()), values)


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("kind", ["table", "bar", "line", "area", "number"])
def test_no_value_name_or_title_gets_out_of_its_place(evil: str, kind: str) -> None:
    shown = Rows((evil, "n" + evil), ("string", "int"), ((evil, 3), ("b", 4)))
    parts = [
        renderer.body(shown, DisplayOptions(chart=kind, x=evil, y=("n" + evil,)), newest=True),
        renderer.head(Condition("running", evil), evil or "t", evil),
        renderer.head(Condition("failed", "Failed", classify(FailureText(trace=evil)), evil), evil),
    ]

    for part in parts:
        page = Tags(part.html)
        assert set(page.tags) <= ALLOWED
        assert page.attributes <= {"class", "style", "title", "dir", "alt", "src"}
        part.html.encode()  # no half of a pair
        assert not re.search(r"[\x00-\x08\x1b\u202e]", part.html + part.text)
        for drawing in drawings(part.html):
            assert "<script" not in drawing
            assert "onerror=alert" not in re.sub(r">[^<]*<", "><", drawing)


def test_a_value_is_shown_as_it_is_after_all_that_care() -> None:
    page = Tags(renderer.body(rows(("<b>&amp;</b>", 1)), DisplayOptions(), newest=True).html)

    assert "<b>&amp;</b>" in page.texts


def test_mathjax_leaves_prices_alone() -> None:
    assert (
        "tex2jax_ignore"
        in renderer.body(rows(("$1 and $2", 1)), DisplayOptions(), newest=True).html
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (Decimal("1.10"), "1.10"),
        (datetime(2026, 1, 5, 10, 0, tzinfo=UTC), "2026-01-05 10:00:00"),
        (date(2026, 1, 5), "2026-01-05"),
        (b"\x01\xff", "01 FF"),
        (b"x" * 1000, "78 " * 15 + "78… (1,000 bytes)"),
        ([1, None, {"a": "b"}], "[1, null, {a: b}]"),
        ([("key", 1)], "[[key, 1]]"),
    ],
)
def test_values_are_said_as_spark_would(value: object, said: str) -> None:
    assert cell_text.text_of(value) == said


def test_a_cell_of_five_megabytes_is_shortened_and_its_length_said() -> None:
    part = renderer.body(rows(("é" * 5_000_000, 1)), DisplayOptions(), newest=True)

    assert len(part.html) < 2_000
    assert "… (5,000,000 characters)" in part.html
    assert len(part.text) < 500


def test_what_is_left_out_is_said() -> None:
    cut = Rows(("x",), ("int",), tuple((n,) for n in range(100)), is_cut=True)
    wide = Rows(tuple(f"c{n}" for n in range(150)), ("int",) * 150, ((1,) * 150,))

    assert "the newest 100 rows" in renderer.body(cut, DisplayOptions(), newest=True).html
    assert "the first 100 rows" in renderer.body(cut, DisplayOptions(), newest=False).html
    assert "(newest 20 rows)" in renderer.body(cut, DisplayOptions(), newest=True).text
    assert "the first 100 of 150 columns" in renderer.body(wide, DisplayOptions(), newest=True).html


def test_pages_are_neither_dark_nor_light() -> None:
    """No background, no black, no white: what is there shows on both."""
    samples = [from_spark({"batchId": 1, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 2.0})]
    parts = [
        renderer.body(rows(("a", 1)), DisplayOptions(), newest=True),
        renderer.body(rows(("a", 1)), DisplayOptions(chart="bar"), newest=True),
        renderer.head(Condition("waiting", "Waiting"), "t"),
        renderer.foot(samples),
    ]

    for part in parts:
        for text in (part.html, *drawings(part.html)):
            assert "background" not in text
            assert not re.search(r"#(?:000|fff)\b|#(?:000000|ffffff)\b|\b(?:black|white)\b", text)


# ---- charts


WHY_NOT = [
    (Rows(("x", "y"), ("string", "int")), DisplayOptions(), "No rows yet."),
    (
        rows(("a", "b"), kinds="string string"),
        DisplayOptions(),
        "no column other than x is numeric",
    ),
    (
        rows(("a", "b"), kinds="string string"),
        DisplayOptions(x="x", y=("y",)),
        "y is string, not a number",
    ),
    (rows(("a", 1)), DisplayOptions(x="y", y=("x",)), "x is string, not a number"),
    (rows(("a", None)), DisplayOptions(), "values of y are null"),
    (rows(("a", float("nan")), kinds="string double"), DisplayOptions(), "values of y are null"),
]


@pytest.mark.parametrize(("given", "wanted", "why"), WHY_NOT)
@pytest.mark.parametrize("kind", ["bar", "line", "area", "number"])
def test_a_chart_without_numbers_says_why(
    given: Rows, wanted: DisplayOptions, why: str, kind: str
) -> None:
    part = renderer.body(given, replace(wanted, chart=kind), newest=True)

    assert why in part.html
    assert drawings(part.html) == []


def test_a_wrong_y_is_told_with_the_columns_that_would_do() -> None:
    given = rows(("a", 1, 2.0), names="x y z", kinds="string int double")

    assert "Numeric columns: y, z." in str(
        chart.series(given, DisplayOptions(chart="bar", y=("x",), x="x"))
    )


def test_times_are_sorted_and_texts_stay_in_their_order() -> None:
    at = [datetime(2026, 1, 5, 10, m, tzinfo=UTC) for m in (2, 0, 1)]
    timed = rows(*zip(at, (30, 10, 20), strict=True), kinds="timestamp int")
    named = rows(("b", 2), ("a", 1))

    by_time, by_name = (
        chart.series(timed, DisplayOptions(chart="bar")),
        chart.series(named, DisplayOptions()),
    )

    assert isinstance(by_time, chart.ChartSeries)
    assert by_time.x == ("10:00", "10:01", "10:02")
    assert by_time.y == (("y", (10.0, 20.0, 30.0)),)
    assert isinstance(by_name, chart.ChartSeries)
    assert by_name.x == ("b", "a")


def test_bars_are_as_high_as_their_numbers() -> None:
    drawn = chart.series(rows(("a", 1), ("b", 4), ("c", -2)), DisplayOptions(chart="bar"))
    assert isinstance(drawn, chart.ChartSeries)

    bars = re.search(r"<g fill.*?</g>", chart.svg(drawn, "bar"))
    assert bars is not None
    heights = [float(h) for h in re.findall(r"height='([\d.]+)'", bars[0])]

    assert heights[1] == pytest.approx(4 * heights[0], abs=0.3)
    assert heights[2] == pytest.approx(2 * heights[0], abs=0.3)


def test_the_numbers_of_a_chart_are_also_words() -> None:
    part = renderer.body(rows(("a", 1), ("b", 2500)), DisplayOptions(chart="bar"), newest=True)

    assert 'alt="bar chart over x. y: a = 1, b = 2,500"' in part.html


def test_a_figure_has_the_same_numbers() -> None:
    drawn = chart.series(rows(("a", 1), ("b", None), ("c", 3)), DisplayOptions(chart="line"))
    assert isinstance(drawn, chart.ChartSeries)

    made = chart.figure(drawn, "line", "T").to_plotly_json()

    assert list(made["data"][0]["y"]) == [1.0, None, 3.0]
    assert made["layout"]["title"]["text"] == "T"


EXTREMES = [(0, 0), (5, 5), (-3, -1), (1e-12, 2e-12), (1e300, -1e300), (0, 1e-320), (7, 1e15)]


@pytest.mark.parametrize(("low", "high"), EXTREMES)
@pytest.mark.parametrize("kind", ["bar", "line", "area", "number"])
def test_any_numbers_can_be_drawn(low: float, high: float, kind: str) -> None:
    given = rows(("a", low), ("b", high), kinds="string double")
    drawing = drawings(renderer.body(given, DisplayOptions(chart=kind), newest=True).html)[0]

    assert "nan" not in drawing
    assert "inf" not in drawing


def test_thousands_of_points_stay_a_small_picture() -> None:
    given = rows(*((n, n % 7) for n in range(5_000)), kinds="int int")
    for kind in ("bar", "line"):
        assert (
            len(renderer.body(given, DisplayOptions(chart=kind, x="x"), newest=True).html) < 200_000
        )


# ---- rates


def test_rates_are_told_in_words() -> None:
    progress = {
        "batchId": 7,
        "timestamp": "t",
        "numInputRows": 1200,
        "inputRowsPerSecond": 40.04,
        "processedRowsPerSecond": 3000.0,
        "durationMs": {"triggerExecution": 1400},
    }

    samples = [from_spark(progress)]

    assert rate_chart.describe(samples) == (
        "input 40 rows/s · processing 3,000 rows/s · batch 7: 1,200 rows in 1.4 s"
    )
    assert rate_chart.describe([]) == "No batches yet."


def test_what_spark_cannot_say_is_a_dash() -> None:
    one = from_spark({"batchId": 0, "inputRowsPerSecond": float("nan")})

    assert rate_chart.describe([one]).startswith("input – · processing –")
    assert drawings(renderer.foot([one]).html)


# ---- what is asked for


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"chart": "bars"}, 'chart="bar"'),
        ({"rows": 0}, "from 1 to 10,000"),
        ({"rows": 10_001}, "from 1 to 10,000"),
        ({"rows": True}, "from 1 to 10,000"),
        ({"x": ["a", "b"]}, "one column"),
        ({"y": 3}, "Invalid y: 3"),
    ],
)
def test_what_cannot_be_shown_is_refused(given: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"title": None, "chart": None, "x": None, "y": None, "rows": 10}

    with pytest.raises(ConnectorError) as refused:
        parse_options(**{**asked, **given}, every="1 second")

    assert said in str(refused.value)


def test_without_ipython_rows_are_plain_lines_and_it_says_so() -> None:
    script = (
        "import sys; sys.modules['IPython'] = None\n"
        "from headrace.notebook import kernel, output\n"
        "from headrace.notebook.renderer import Part\n"
        "assert kernel.shell() is None\n"
        "made = output.Terminal(); made.open(('body',), None); made.show('body', Part('', 'rows'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )

    assert done.stderr == ""
    assert 'pip install "headrace[notebook]"' in done.stdout
    assert done.stdout.endswith("rows\n")
