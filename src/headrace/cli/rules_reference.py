"""Generates the tables in docs/reference/rules.md from the code. A test compares them.

python -m headrace.cli.rules_reference docs/reference/rules.md
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from headrace.alerts.rules import metrics, table
from headrace.alerts.rules.words import percent, size
from headrace.model.rules import Limit, LimitKind, Rule
from headrace.model.times import span

_PARTS = ("rules", "limits", "fixed", "metrics")


def with_tables(text: str) -> str:
    """The page, with each table between its two markers."""
    made = {"rules": _rules, "limits": _limits, "fixed": _fixed, "metrics": _metrics}
    for part in _PARTS:
        lines = "\n".join(made[part]()) + "\n"
        text = re.sub(
            rf"(?<=<!-- {part} -->\n).*?(?=<!-- end {part} -->)",
            lambda _, lines=lines: lines,  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )
    return text


def _rules() -> list[str]:
    return [
        "| rule | severity | `for` | `keep_firing_for` | condition |",
        "|---|---|---|---|---|",
        *(
            f"| `{rule.name}` | {rule.severity}{'' if rule.enabled else ', off'} "
            f"| {span(rule.for_s)} | {span(rule.keep_firing_for_s)} | {rule.help} |"
            for rule in table.RULES.values()
        ),
    ]


def _limits() -> list[str]:
    return [
        "| setting | default | meaning |",
        "|---|---|---|",
        *(
            f"| `rules.{rule.name}.{name}` | {_default(limit)} | {limit.help} |"
            for rule, name, limit in _all_limits()
        ),
    ]


def _all_limits() -> list[tuple[Rule, str, Limit]]:
    return [
        (rule, name, limit) for rule in table.RULES.values() for name, limit in rule.limits.items()
    ]


def _default(limit: Limit) -> str:
    value = limit.default
    if value is None:
        return "no limit"
    if limit.kind is LimitKind.DURATION:
        return f'`"{span(value)}"`'
    if limit.kind is LimitKind.BYTES:
        return f'`"{size(value)}"`'
    return f'`"{percent(value)}"`' if limit.kind is LimitKind.SHARE else f"`{value:g}`"


def _fixed() -> list[str]:
    return [
        "| rule | severity | condition |",
        "|---|---|---|",
        *(f"| `{name}` | {severity} | {help_} |" for name, (severity, help_) in _fixed_rows()),
    ]


def _fixed_rows() -> list[tuple[str, tuple[str, str]]]:
    return list(table.FIXED.items())


def _metrics() -> list[str]:
    return [
        "| metric | about | unit | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{one.name}` | {one.about} | {one.unit} | {one.help} |"
            for one in metrics.METRICS.values()
        ),
    ]


@click.command()
@click.argument("page", type=click.Path(path_type=Path, exists=True))
def _write(page: Path) -> None:
    page.write_text(with_tables(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    _write()
