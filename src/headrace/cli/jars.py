"""`jars`: list and fetch the jars that connectors need, with Maven."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from headrace.cli import output, spinner
from headrace.cli.options import as_json
from headrace.connectors import jars as bundles
from headrace.connectors.jars import Bundle
from headrace.errors import SetupError
from headrace.supervisor import process

WITHIN_S = 600.0
MAVEN = "mvn"


@click.group()
def jars() -> None:
    """Jars for the Kafka connector and a development broker."""


@jars.command("list")
@as_json
def list_(json_: bool) -> None:
    """List the jars and whether they have been fetched."""
    rows = [_row(bundle) for bundle in bundles.BUNDLES.values()]
    if json_:
        output.print_json({"spark": bundles.spark_version(), "jars": rows})
        return
    for row in rows:
        there = f"{row['jars']} jars in {row['path']}" if row["jars"] else "not fetched"
        click.echo(f"{row['name']:<8} {row['what']}: {there}")
        _print_older(row["version"])
        if row["coordinate"]:
            click.echo(f"         {row['coordinate']}")


def _row(bundle: Bundle) -> dict[str, str | int | None]:
    return {
        "name": bundle.name,
        "what": bundle.what,
        "coordinate": bundles.coordinate(bundle),
        "path": str(bundles.folder(bundle)),
        "jars": len(bundles.fetched_files(bundle)),
        "version": bundles.fetched_version(bundle),
    }


def _print_older(version: str | int | None) -> None:
    spark = bundles.spark_version()
    if version not in (None, spark):
        click.echo(
            f"         for Spark {version}, the newest patch release that Maven found; "
            f"compatible with the installed PySpark {spark}"
        )


@jars.command()
@click.argument("name", type=click.Choice(list(bundles.BUNDLES)))
@as_json
def fetch(name: str, json_: bool) -> None:
    """Fetch jars with Maven, once per installation.

    Sessions then need no network access. Run this command again after you update PySpark, because
    jars for a different version are ignored.
    """
    bundle = bundles.BUNDLES[name]
    with spinner.show(f"fetching {bundle.what} with Maven", quiet=json_):
        found = fetch_bundle(bundle)
    if json_:
        output.print_json(_row(bundle))
    else:
        size = sum(path.stat().st_size for path in found) / 1e6
        click.echo(f"{len(found)} jars ({size:.0f} MB) in {bundles.folder(bundle)}")
        _print_older(bundles.fetched_version(bundle))


def fetch_bundle(bundle: Bundle) -> list[Path]:
    """Replace the jars as a whole. On failure the old ones stay."""
    target = bundles.folder(bundle)
    if shutil.which(MAVEN) is None:
        raise SetupError(
            "Maven is required to fetch jars, but was not found.",
            why=f"The program {MAVEN} is not on PATH.",
            fix="Install Maven (Debian: apt-get install maven), or copy these jars to "
            f"{target}: {bundles.coordinate(bundle) or bundle.what}",
            slug="maven-missing",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            _run_maven(bundle, Path(scratch))
            _keep(bundle, Path(scratch), target)
    except OSError as exc:
        raise _fetch_error(bundle, str(exc)) from exc
    return bundles.fetched_files(bundle)


def _run_maven(bundle: Bundle, scratch: Path) -> None:
    (scratch / "pom.xml").write_text(bundles.pom(bundle), encoding="utf-8")
    command = [MAVEN, "-q", "-B", "-U", "-f", str(scratch / "pom.xml")]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={scratch / 'jars'}"]
    if why := process.run_command(command, scratch, scratch / "log", WITHIN_S):
        raise _fetch_error(bundle, why)


def _keep(bundle: Bundle, scratch: Path, target: Path) -> None:
    found = sorted((scratch / "jars").glob("*.jar"))
    if bundle.coordinate:
        found = bundles.exclude_provided(found, _spark_jars())
    if not found:
        raise _fetch_error(bundle, "Maven fetched no jars.")
    fresh = scratch / "fresh"
    fresh.mkdir()
    for path in found:
        path.replace(fresh / path.name)
    shutil.rmtree(target, ignore_errors=True)
    fresh.replace(target)


def _spark_jars() -> list[Path]:
    """Without importing pyspark, which takes a second."""
    from importlib.util import find_spec

    spec = find_spec("pyspark")
    home = Path(spec.origin).parent if spec and spec.origin else Path(sys.prefix)
    return sorted((home / "jars").glob("*.jar"))


def _fetch_error(bundle: Bundle, why: str) -> SetupError:
    return SetupError(
        f"Could not fetch the {bundle.name} jars.",
        why=why,
        where=str(bundles.folder(bundle)),
        fix="Check the repositories in Maven's settings.xml and the version in Maven's message, "
        f"then run headrace jars fetch {bundle.name} again.",
        slug="jars-failed",
    )
