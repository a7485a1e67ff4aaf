"""`jars`: what connectors need of Java, fetched once by Maven, and shown."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from headrace.cli.options import as_json
from headrace.connectors import jars as bundles
from headrace.connectors.jars import Bundle
from headrace.errors import SetupError

WITHIN_S = 600.0
MAVEN = "mvn"


@click.group()
def jars() -> None:
    """Jars of connectors: Kafka's, and a broker to develop with."""


@jars.command("list")
@as_json
def list_(json_: bool) -> None:
    """What can be fetched, and what is there."""
    from headrace.cli import tables

    rows = [_row(one) for one in bundles.BUNDLES.values()]
    if json_:
        tables.print_json({"spark": bundles.spark_version(), "jars": rows})
        return
    for row in rows:
        there = f"{row['jars']} jars in {row['path']}" if row["jars"] else "not fetched"
        click.echo(f"{row['name']:<8} {row['what']}: {there}")
        _tell_older(row["version"])
        if row["coordinate"]:
            click.echo(f"         {row['coordinate']}")


def _row(bundle: Bundle) -> dict[str, str | int | None]:
    return {
        "name": bundle.name,
        "what": bundle.what,
        "coordinate": bundles.coordinate(bundle),
        "path": str(bundles.folder(bundle)),
        "jars": len(bundles.fetched(bundle)),
        "version": bundles.fetched_version(bundle),
    }


def _tell_older(version: str | int | None) -> None:
    spark = bundles.spark_version()
    if version not in (None, spark):
        click.echo(
            f"         for Spark {version}: the newest of this minor version that Maven found; "
            f"PySpark here is {spark}, and they fit"
        )


@jars.command()
@click.argument("name", type=click.Choice(list(bundles.BUNDLES)))
@as_json
def fetch(name: str, json_: bool) -> None:
    """Fetch jars with Maven, once for this installation.

    Sessions then need no network. Run it again after an update of PySpark: the jars of another
    version are left aside.
    """
    from headrace.cli import spinner, tables

    bundle = bundles.BUNDLES[name]
    with spinner.shown(f"Maven fetches {bundle.what}", quiet=json_):
        found = fetched(bundle)
    if json_:
        tables.print_json(_row(bundle))
    else:
        size = sum(path.stat().st_size for path in found) / 1e6
        click.echo(f"{len(found)} jars ({size:.0f} MB) in {bundles.folder(bundle)}")
        _tell_older(bundles.fetched_version(bundle))


def fetched(bundle: Bundle) -> list[Path]:
    """As a whole, or what was there stays."""
    target = bundles.folder(bundle)
    if shutil.which(MAVEN) is None:
        raise SetupError(
            "Maven was not found: it fetches jars.",
            why=f"there is no program {MAVEN} on PATH",
            fix="install it (Debian: apt-get install maven), or put these jars into "
            f"{target} yourself: {bundles.coordinate(bundle) or bundle.what}",
            slug="maven-missing",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            _copied(bundle, Path(scratch))
            _keep(bundle, Path(scratch), target)
    except OSError as exc:
        raise _failed(bundle, str(exc)) from exc
    return bundles.fetched(bundle)


def _copied(bundle: Bundle, scratch: Path) -> None:
    from headrace.supervisor import process

    (scratch / "pom.xml").write_text(bundles.pom(bundle), encoding="utf-8")
    command = [MAVEN, "-q", "-B", "-U", "-f", str(scratch / "pom.xml")]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={scratch / 'jars'}"]
    if why := process.finished(command, scratch, scratch / "log", WITHIN_S):
        raise _failed(bundle, why)


def _keep(bundle: Bundle, scratch: Path, target: Path) -> None:
    found = sorted((scratch / "jars").glob("*.jar"))
    if bundle.coordinate:
        found = bundles.needed(found, _sparks_own())
    if not found:
        raise _failed(bundle, "Maven fetched no jar")
    fresh = scratch / "fresh"
    fresh.mkdir()
    for path in found:
        path.replace(fresh / path.name)
    shutil.rmtree(target, ignore_errors=True)
    fresh.replace(target)


def _sparks_own() -> list[Path]:
    """Found without importing pyspark, which takes a second."""
    from importlib.util import find_spec

    spec = find_spec("pyspark")
    home = Path(spec.origin).parent if spec and spec.origin else Path(sys.prefix)
    return sorted((home / "jars").glob("*.jar"))


def _failed(bundle: Bundle, why: str) -> SetupError:
    return SetupError(
        f"The jars of {bundle.name} could not be fetched.",
        why=why,
        where=str(bundles.folder(bundle)),
        fix="Maven's words say whether it cannot reach a repository (settings.xml names them) or "
        f"the repository has no such version; headrace jars fetch {bundle.name} tries again",
        slug="jars-failed",
    )


COMMANDS = (jars,)
