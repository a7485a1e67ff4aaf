"""docs/reference/cli.md is what the commands say of themselves."""

from __future__ import annotations

import ast
from pathlib import Path

from headrace.cli import reference

REPO = Path(__file__).parents[2]
COMMAND_LINES_MAX = 25


def test_the_page_is_in_step_with_the_commands() -> None:
    page = (REPO / "docs" / "reference" / "cli.md").read_text()

    assert page == reference.page(), "python -m headrace.cli.reference > docs/reference/cli.md"


def test_commands_are_short() -> None:
    long = []
    for name in ("begin", "service", "looking", "history", "control"):
        tree = ast.parse((REPO / "src" / "headrace" / "cli" / f"{name}.py").read_text())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                long += [node.name] if lines > COMMAND_LINES_MAX else []

    assert long == []
