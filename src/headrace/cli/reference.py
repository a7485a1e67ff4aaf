"""docs/reference/cli.md, written from the commands themselves: `python -m headrace.cli.reference`.

A test compares the page with what this makes, so that neither can go its own way.
"""

from __future__ import annotations

import inspect

import click

from headrace.cli.main import main

_TITLE = """\
# Command line

Written by `python -m headrace.cli.reference > docs/reference/cli.md`; edit the commands instead.
Exit codes are in [exit-codes.md](exit-codes.md), errors in [errors.md](errors.md).

A query is PIPELINE/QUERY; its bare name works where only one pipeline has it. A pipeline may also
be given by the path of its file. Reading commands take `--json`; an error is then
`{"error": {"slug", "what", "why", "where", "fix"}}` on stdout. Everything else goes to stdout,
errors and Headrace's own voice in `run` to stderr. Durations: `60s`, `2 minutes`, `500ms`.
"""
_SHARED = ("--project", "--profile", "--debug")


def page() -> str:
    ctx = click.Context(main, info_name="headrace")
    shared = [_option(param) for param in _options(main) if param.name != "help"]
    parts = [_TITLE, "## headrace\n\nOptions of every command, before or after its name:\n"]
    parts.append("\n".join([*shared, ""]))
    for name in main.list_commands(ctx):
        parts.append(_command(main.commands[name], ctx))
    return "\n".join(parts)


def _command(command: click.Command, parent: click.Context) -> str:
    ctx = click.Context(command, info_name=str(command.name), parent=parent)
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    name = ctx.command_path.removeprefix("headrace ")
    if isinstance(command, click.Group):
        return "\n".join(_command(command.commands[one], ctx) for one in command.commands)
    help_ = inspect.cleandoc(command.help or "").replace("\b\n", "")
    own = [p for p in _options(command) if p.opts[0] not in _SHARED and p.name != "help"]
    options = "\n".join(_option(param) for param in own)
    return f"## {name}\n\n    {usage}\n\n{help_}\n" + (f"\n{options}\n" if options else "")


def _options(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option)]


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if isinstance(option.type, click.Choice):
        value = " `" + "|".join(map(str, option.type.choices)) + "`"
    else:
        value = "" if option.is_flag else f" `{option.metavar or option.type.name.upper()}`"
    text = option.help or ""
    if option.show_default and option.default is not None:
        text = f"{text} Default: `{option.default}`.".strip()
    return f"- {names}{value}: {text}"


if __name__ == "__main__":
    click.echo(page(), nl=False)
