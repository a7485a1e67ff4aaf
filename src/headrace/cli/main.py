"""The command `headrace`: the table of commands, and the place where errors become messages.

Commands are imported when they are used, so `headrace --help` imports nothing but click.
Invariant: the program always ends in `Headrace.main`; an error brings its own exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from headrace import __version__
from headrace.cli.errors import UNEXPECTED, show_error, show_interrupt, usage_error
from headrace.cli.options import Options, shared_options
from headrace.errors import ConfigError, Error
from headrace.spelling import closest

# In the order in which a new user needs them. A test compares the texts with the commands' help.
COMMANDS = {
    "demo": ("headrace.cli.run:demo", "See a streaming application at work, with files or Kafka"),
    "init": ("headrace.cli.scaffold:init", "Create a small working project"),
    "check": ("headrace.cli.check:check", "Find every problem without starting a query"),
    "run": ("headrace.cli.run:run", "Run a pipeline or script in the foreground"),
    "up": ("headrace.cli.up_down:up", "Deploy pipelines and keep them running"),
    "down": ("headrace.cli.up_down:down", "Drain all pipelines and stop the supervisor"),
    "status": ("headrace.cli.status:status", "Show what is running, its state, and why"),
    "why": ("headrace.cli.why:why", "Explain a pipeline's state and what to do about it"),
    "wait": ("headrace.cli.status:wait", "Wait for a state; exit with code 1 on timeout"),
    "progress": ("headrace.cli.history:progress", "Show the progress of each query"),
    "logs": ("headrace.cli.history:logs", "Show the output of a pipeline's driver"),
    "events": ("headrace.cli.history:events", "Show what happened: starts, stops and failures"),
    "versions": ("headrace.cli.history:versions", "List deployed versions"),
    "alerts": ("headrace.cli.alerts:alerts", "Alerts from pipelines and from hr.alert sinks"),
    "rules": ("headrace.cli.rules:rules", "List the rules that open alerts"),
    "metrics": ("headrace.cli.metrics:metrics", "Metrics for Prometheus, Grafana and others"),
    "quarantine": ("headrace.cli.quarantine:quarantine", "Records that could not be parsed"),
    "sql": ("headrace.cli.sql:sql", "Query committed results with SQL"),
    "start": ("headrace.cli.control:start", "Start the deployed version of a pipeline"),
    "stop": ("headrace.cli.control:stop", "Stop a pipeline at a batch boundary"),
    "restart": ("headrace.cli.control:restart", "Drain a pipeline and start it again"),
    "rollback": ("headrace.cli.control:rollback", "Go back to an earlier version"),
    "jars": ("headrace.cli.jars:jars", "Jars for the Kafka connector and a development broker"),
    "kafka": ("headrace.cli.kafka:kafka", "A Kafka broker for development, on this machine"),
    "lag": ("headrace.cli.status:lag", "Show how far queries are behind in Kafka"),
    "token": ("headrace.cli.token:token", "Print a link to the web page"),
    "service": ("headrace.cli.service:service", "Run the supervisor under systemd"),
    "warm": ("headrace.cli.warm:warm", "Make pipelines start faster on this machine"),
}


class Headrace(click.Group):
    """A group that imports a command on first use, and shows no traceback without --debug."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(given, prog_name or "headrace", complete_var, False, **extra)
        except Exception as exc:  # the outermost boundary: every error becomes a message
            code = _handle_exception(exc, given)
        except KeyboardInterrupt:
            code = show_interrupt()
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in COMMANDS:
            close = closest(name, COMMANDS)
            raise ConfigError(
                f'Unknown command "{name}".',
                why=f'Did you mean "{close}"?' if close else None,
                fix=f"headrace {close} --help" if close else "List all commands: headrace --help",
                slug="unknown-command",
            )
        return super().resolve_command(ctx, args)


def _handle_exception(exc: Exception, args: list[str]) -> int:
    own = args[: args.index("--")] if "--" in args else args  # the rest belongs to a script
    json_ = "--json" in own
    if isinstance(exc, BrokenPipeError):
        # `headrace logs | head`: the reader is gone. Python must not flush into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(exc, click.Abort):
        return show_interrupt()
    if isinstance(exc, click.ClickException):
        return usage_error(exc, json_)
    if isinstance(exc, Error):
        show_error(exc, json_)
        return exc.exit_code
    if "--debug" in own:
        import traceback

        traceback.print_exception(exc)
    else:
        show_error(Error(f"{type(exc).__name__}: {exc}", why=UNEXPECTED, slug="unexpected"), json_)
    return 1


@click.group(
    cls=Headrace,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="headrace", message="%(prog)s %(version)s")
@shared_options
@click.pass_context
def main(ctx: click.Context) -> None:
    """Keeps PySpark Structured Streaming running: supervises, restarts, explains.

    \b
    Get started:  headrace init hello && cd hello && headrace run hello
    """
    ctx.ensure_object(Options)
    if os.environ.get("NO_COLOR"):
        ctx.color = False
