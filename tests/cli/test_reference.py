"""docs/reference/cli.md is what the commands say of themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import click
import pytest

from headrace.cli import reference
from headrace.cli.main import COMMANDS, main
from headrace.driver import session

REPO = Path(__file__).parents[2]
COMMAND_LINES_MAX = 25


def test_the_page_is_in_step_with_the_commands() -> None:
    page = (REPO / "docs" / "reference" / "cli.md").read_text()

    assert page == reference.page(), "python -m headrace.cli.reference > docs/reference/cli.md"


def test_the_settings_page_lists_the_spark_settings_of_the_code() -> None:
    page = (REPO / "docs" / "reference" / "settings.md").read_text()

    assert page == reference.with_spark_settings(page), (
        "python -m headrace.cli.reference --settings docs/reference/settings.md"
    )
    for default in session.DEFAULTS:
        assert f"| `{default.key}` |" in page


def test_commands_are_short() -> None:
    long = []
    for path in (REPO / "src" / "headrace" / "cli").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and is_command(node):
                lines = (node.end_lineno or 0) - node.lineno + 1
                long += [node.name] if lines > COMMAND_LINES_MAX else []

    assert long == []


def is_command(node: ast.FunctionDef) -> bool:
    return any("command(" in ast.unparse(decorator) for decorator in node.decorator_list)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_short_help_in_the_table_is_that_of_the_command(name: str) -> None:
    command = main.get_command(click.Context(main), name)

    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(200).startswith(COMMANDS[name][1])
