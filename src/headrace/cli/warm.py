"""`warm`: Spark's classes kept ready, so that drivers start faster on this machine."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click

from headrace.cli.options import as_json
from headrace.errors import SetupError

WITHIN_S = 300.0


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
        keep(archive)
    took, size = time.monotonic() - began, archive.stat().st_size
    if json_:
        tables.print_json({"path": str(archive), "bytes": size, "took_s": round(took, 1)})
    else:
        click.echo(
            f"Spark's classes are kept ready: {size / 1e6:.0f} MB in {took:.0f} s.\n  {archive}"
        )


def keep(archive: Path) -> None:
    """Rehearse a pipeline, and have its JVM write what it loaded; else what was there stays."""
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            fresh = Path(scratch) / "fresh.jsa"
            why = _rehearsed(Path(scratch), fresh)
            if why or not fresh.exists():
                raise _failed(archive, why or "Java wrote no archive")
            fresh.replace(archive)
    except OSError as exc:
        raise _failed(archive, str(exc)) from exc


def _rehearsed(scratch: Path, fresh: Path) -> str | None:
    """Why it did not come to a good end, if it did not."""
    from headrace.supervisor import process

    log, module = scratch / "log", "headrace.driver.rehearsal"
    command = [*process.PYTHON, module, str(scratch), str(fresh)]
    return process.finished(command, scratch, log, WITHIN_S)


def _failed(archive: Path, why: str) -> SetupError:
    return SetupError(
        "Spark's classes could not be kept ready.",
        why=why,
        where=str(archive.parent),
        fix="pipelines run without it; run `headrace warm` as the one who installed Headrace",
        slug="warm-failed",
    )


COMMANDS = (warm,)
