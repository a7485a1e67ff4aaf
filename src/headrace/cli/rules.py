"""`rules`: the conditions under which Headrace opens an alert, as this project sets them."""

from __future__ import annotations

import click
from rich.text import Text

from headrace.cli import output
from headrace.cli.options import Options, pass_options_and_json
from headrace.model.times import span
from headrace.project import rules as project_rules


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@pass_options_and_json
def rules(options: Options, name: str | None, json_: bool) -> None:
    """List the rules that open alerts.

    Shows whether each rule is on, how long its condition must hold, and its limits, with the
    settings of this project. NAME shows one rule.
    """
    found = project_rules.find(options.open(), name)
    if json_:
        output.print_json({"rules": [rule.to_json() for rule in found]})
        return
    table = output.grid("rule", "state", "severity", "for", "limits", "meaning", wrap=["meaning"])
    for rule in found:
        table.add_row(
            rule.name,
            Text(rule.state, style="" if rule.state == "on" else "dim"),
            rule.severity,
            span(rule.for_s) if rule.for_s else "",
            "\n".join(f"{limit} = {value}" for limit, value in rule.limits.items()),
            Text(f"{rule.help} {rule.problem}".strip()),
        )
    output.console().print(table)
