"""Commands for a project that stays up: `up`, `down`. Their work is in deploys."""

from __future__ import annotations

import click

from headrace.cli.options import Options, Seconds, pass_options, shared

_ARGUMENTS = "headrace.arguments"


class _WithArguments(click.Command):
    """What follows `--` belongs to the script; click alone would mix it with the names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_ARGUMENTS] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command(cls=_WithArguments)
@click.argument("names", metavar="[NAME|FILE]... [-- ARGS]", nargs=-1)
@click.option("--foreground", is_flag=True, help="Be the supervisor in this process (systemd).")
@shared
@click.pass_context
def up(ctx: click.Context, names: tuple[str, ...], foreground: bool) -> None:
    """Deploy pipelines and keep them running.

    All of the project by default.

    Starts the project's supervisor if none runs. An edited pipeline that runs is drained, switched
    and started again. `headrace up script.py -- ARGS` keeps a script up.

    --foreground is for systemd. Without names it brings back what should run and deploys nothing,
    so that a restart of the service is no deploy; only a project where nothing was ever deployed
    is deployed whole. Deploy with `headrace up` from another terminal.
    """
    from headrace.cli import deploys

    work = ctx.ensure_object(Options).open()
    begin = deploys.up_in_foreground if foreground else deploys.up
    raise click.exceptions.Exit(begin(work, names, ctx.meta[_ARGUMENTS]))


@click.command()
@click.option(
    "--timeout", type=Seconds(), default="5 minutes", show_default=True, help="How long to wait."
)
@shared
@pass_options
def down(options: Options, timeout: float) -> None:
    """Drain everything and end the supervisor.

    What should run is remembered: `headrace up` brings the same back.
    """
    from headrace.cli import deploys

    raise click.exceptions.Exit(deploys.down(options.open(), timeout))


COMMANDS = (up, down)
