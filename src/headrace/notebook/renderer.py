"""Renders a display as HTML and as text: status line, table or chart, rates. Pure.

Invariant: works without scripts, on light and dark pages, and every value of the user goes through
`cell_text.safe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.failures.classifier import Classification
from headrace.model.progress import Progress
from headrace.notebook import chart, rate_chart
from headrace.notebook.cell_text import Rows, cut, is_number_kind, line, safe, shorten, text_of
from headrace.notebook.display_options import DisplayOptions

COLUMNS_MAX = 100
TEXT_ROWS_MAX = 20
TEXT_CHARS_MAX = 30
TRACE_CHARS_MAX = 20_000
DOTS = {
    "running": "#2f9e5b",
    "waiting": "#3d85c6",
    "stopped": "#909090",
    "failed": "#d64545",
}
# MathJax must not change the values.
_OPEN = '<div class="headrace tex2jax_ignore mathjax_ignore">'
_DIM = "opacity:.65"


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of a query. Without a query the message is empty."""

    state: str  # a key of DOTS
    message: str
    failure: Classification | None = None
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """For a page and for a terminal."""

    html: str
    text: str


def head(condition: Condition, title: str | None, hint: str = "") -> Part:
    """The status line, with the explanation of a failure."""
    if not condition.message:
        return Part(f"{_OPEN}<b>{safe(shorten(title or ''))}</b></div>", line(title or ""))
    name = f"<b>{safe(shorten(title))}</b> " if title else ""
    dot = f'<span style="color:{DOTS[condition.state]}" title="{condition.state}">●</span>'
    message = safe(shorten(condition.message))
    tip = f' <span style="{_DIM}">{safe(hint)}</span>' if hint else ""
    text = f"{line(title)}: " if title else ""
    text += line(condition.message)
    inside = f"<div>{name}{dot} {message}{tip}</div>"
    if condition.failure is not None:
        failed = _failure(condition.failure, condition.trace)
        inside, text = inside + failed.html, f"{text}\n{failed.text}"
    return Part(f"{_OPEN}{inside}</div>", text)


def body(rows: Rows | None, options: DisplayOptions, *, newest: bool) -> Part:
    """Table or chart. `newest`: the newest rows are shown if there are more."""
    if rows is None:
        return Part(f'{_OPEN}<div style="{_DIM}">No rows yet.</div></div>', "No rows yet.")
    text = text_table(rows, newest=newest)
    if options.chart == "table":
        return Part(f"{_OPEN}{_table(rows)}{_note(rows, newest)}</div>", text)
    drawn = chart.series(rows, options)
    if isinstance(drawn, str):
        return Part(f"{_OPEN}<p>{safe(drawn)}</p></div>", f"{line(drawn)}\n{text}")
    image = chart.image(chart.svg(drawn, options.chart), chart.describe(drawn, options.chart))
    return Part(f"{_OPEN}{image}{_note(rows, newest)}</div>", text)


def foot(batches: Sequence[Progress]) -> Part:
    """Input rate, processing rate and batch duration."""
    text = rate_chart.describe(batches)
    if not batches:
        return Part(f'{_OPEN}<div style="{_DIM}">{safe(text)}</div></div>', text)
    strip = chart.image(rate_chart.strip(batches), f"Rates and batch duration. {text}")
    style = f"{_DIM};font-size:smaller"
    return Part(f'{_OPEN}{strip}<div style="{style}">{safe(text)}</div></div>', text)


def text_table(rows: Rows, *, newest: bool = False) -> str:
    """For a terminal and for the plain text of a saved notebook."""
    names = [cut(line(name), TEXT_CHARS_MAX) for name in rows.names[:COLUMNS_MAX]]
    values = rows.values[-TEXT_ROWS_MAX:] if newest else rows.values[:TEXT_ROWS_MAX]
    lines = [[cut(line(text_of(v)), TEXT_CHARS_MAX) for v in r[:COLUMNS_MAX]] for r in values]
    widths = [max(map(len, column)) for column in zip(names, *lines, strict=True)]
    ruled = [names, ["-" * width for width in widths], *lines]
    out = ["  ".join(t.ljust(w) for t, w in zip(r, widths, strict=True)).rstrip() for r in ruled]
    if rows.is_cut or len(values) < len(rows.values):
        out.append(f"({'newest' if newest else 'first'} {len(values)} rows)")
    return "\n".join(out)


def _table(rows: Rows) -> str:
    shown = list(zip(rows.names, rows.kinds, strict=True))[:COLUMNS_MAX]
    aligned = ["right" if is_number_kind(kind) else "left" for _, kind in shown]
    head = "".join(
        f'<th dir="auto" style="text-align:{side}" title="{safe(shorten(kind))}">'
        f"{safe(shorten(name))}</th>"
        for (name, kind), side in zip(shown, aligned, strict=True)
    )
    lines = []
    for row in rows.values:
        cells = "".join(
            f'<td dir="auto" style="text-align:{side}">{_value(value)}</td>'
            for value, side in zip(row, aligned, strict=False)
        )
        lines.append(f"<tr>{cells}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div style="max-height:26em;overflow:auto">{table}</div>'


def _value(value: object) -> str:
    shown = safe(text_of(value))
    return f'<i style="{_DIM}">{shown}</i>' if value is None else shown


def _note(rows: Rows, newest: bool) -> str:
    notes = []
    if rows.is_cut:
        notes.append(f"the {'newest' if newest else 'first'} {len(rows.values):,} rows")
    if len(rows.names) > COLUMNS_MAX:
        notes.append(f"the first {COLUMNS_MAX} of {len(rows.names):,} columns")
    return f'<div style="{_DIM}">Shown: {"; ".join(notes)}.</div>' if notes else ""


def _failure(verdict: Classification, trace: str) -> Part:
    fields = (("why", verdict.why), ("where", verdict.where), ("fix", verdict.fix))
    shown = [(name, shorten(text, 1_000)) for name, text in fields if text]
    items = "".join(f"<div><b>{name}:</b> {safe(text)}</div>" for name, text in shown)
    what = f"<div>{safe(shorten(verdict.what, 1_000))}</div>"
    full = safe(shorten(trace, TRACE_CHARS_MAX))
    folded = f"<details><summary>Full trace</summary><pre>{full}</pre></details>" if trace else ""
    border = f"border-left:3px solid {DOTS['failed']};padding-left:.7em;margin:.3em 0"
    text = "\n".join([line(verdict.what), *(f"  {name}: {line(value)}" for name, value in shown)])
    return Part(f'<div style="{border}">{what}{items}{folded}</div>', text)
