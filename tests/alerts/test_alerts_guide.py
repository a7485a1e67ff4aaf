"""docs/guides/alerts.md against the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from headrace import config
from headrace.alerts.channels import HEARTBEAT, KINDS, channels, heartbeats
from headrace.alerts.notifiers.webhook import signature
from headrace.alerts.rules import table
from headrace.model.alerts import RULE_OF_ROWS

PAGE = (Path(__file__).parents[2] / "docs/guides/alerts.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def first_cells(heading: str) -> list[str]:
    """The code in the first column of the table below this header."""
    rows = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_the_settings_of_the_guide_are_valid(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text(blocks("toml")[0])

    built = channels(config.load(tmp_path))

    assert [channel.kind for channel in built] == ["pagerduty", "slack", "email"]


def test_the_other_settings_of_the_guide_are_valid(tmp_path: Path) -> None:
    for number, block in enumerate(blocks("toml")[1:]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "headrace.toml").write_text(block)
        settings = config.load(folder)

        assert [*channels(settings), *heartbeats(settings)]


def test_every_kind_is_in_the_guide() -> None:
    assert first_cells("`kind`") == list(KINDS)
    assert f'kind = "{HEARTBEAT}"' in PAGE


def test_the_rules_of_the_guide_exist() -> None:
    named = first_cells("rule")

    assert {"needs-attention", "stalled", "restarting", RULE_OF_ROWS} <= set(named)
    assert set(named) <= {*table.RULES, *table.FIXED}


def test_the_guides_check_of_a_signature_works() -> None:
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)  # noqa: S102 (the guide's own code)
    headers = signature("secret", b'{"a": 1}', 1_800_000_000)
    given = (headers["Headrace-Time"], b'{"a": 1}', headers["Headrace-Signature"])

    assert names["is_genuine"](b"secret", *given)
    assert not names["is_genuine"](b"other", *given)
