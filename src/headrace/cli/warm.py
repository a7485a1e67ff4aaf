"""`warm`: Spark's classes kept ready, so that drivers start faster on this machine."""

from __future__ import annotations

import time

import click

from headrace.cli.options import as_json


@click.command()
@as_json
def warm(json_: bool) -> None:
    """Make pipelines start faster here: once, about a minute.

    Java writes the classes that Spark loads into a file beside the installation; every driver
    started later maps it into memory. Run it again after an update of Java or PySpark; until then
    such a file is left aside. Good to have in the recipe of a container image.
    """
    from headrace.cli import spinner, tables
    from headrace.driver import classes, java

    java.check()
    began, archive = time.monotonic(), classes.kept()
    with spinner.shown("a pipeline is rehearsed, to keep Spark's classes ready", quiet=json_):
        classes.keep(archive)
    took, size = time.monotonic() - began, archive.stat().st_size
    if json_:
        tables.print_json({"path": str(archive), "bytes": size, "took_s": round(took, 1)})
    else:
        click.echo(
            f"Spark's classes are kept ready: {size / 1e6:.0f} MB in {took:.0f} s.\n  {archive}"
        )


COMMANDS = (warm,)
