"""`warm`: an archive of Spark's classes, with which drivers start faster on this machine."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click

from headrace.cli import output, spinner
from headrace.cli.options import as_json
from headrace.driver import class_archive, java
from headrace.errors import SetupError
from headrace.supervisor import process

WITHIN_S = 300.0


@click.command()
@as_json
def warm(json_: bool) -> None:
    """Make pipelines start faster on this machine.

    Run it once; it takes about a minute. Java stores Spark's classes in a file next to the
    installation, and drivers that start later map this file into memory. After you update Java or
    PySpark, run it again; until then, the file is ignored. This is useful in a container image.
    """
    java.check()
    began, archive = time.monotonic(), class_archive.default_path()
    with spinner.show("running a sample pipeline to collect Spark's classes", quiet=json_):
        keep(archive)
    took, size = time.monotonic() - began, archive.stat().st_size
    words = f"Archived Spark's classes: {size / 1e6:.0f} MB in {took:.0f} s.\n  {archive}"
    body = {"path": str(archive), "bytes": size, "took_s": round(took, 1)}
    output.print_either(words, body, json_=json_)


def keep(archive: Path) -> None:
    """Run a sample pipeline whose JVM writes the archive. On failure the old archive stays."""
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            fresh = Path(scratch) / "fresh.jsa"
            command = [*process.PYTHON, "headrace.driver.warm_up", scratch, str(fresh)]
            log = Path(scratch) / "log"
            why = process.run_command(command, Path(scratch), log, WITHIN_S)
            if why or not fresh.exists():
                raise _warm_error(archive, why or "Java wrote no archive.")
            fresh.replace(archive)
    except OSError as exc:
        raise _warm_error(archive, str(exc)) from exc


def _warm_error(archive: Path, why: str) -> SetupError:
    return SetupError(
        "Could not create the archive of Spark's classes.",
        why=why,
        where=str(archive.parent),
        fix="Pipelines still run without the archive. To try again, check the disk space, then "
        "run headrace warm as the user who installed Headrace.",
        slug="warm-failed",
    )
