"""Jars of Java that a connector needs beside Spark: where they are, and how a session gets them.

A folder that was fetched once (`headrace jars fetch`) is used where there is one: it needs no
network, and no seconds at each start. Else Spark's own resolver is asked, by the coordinate that
fits the installed PySpark.
"""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from headrace.errors import ConfigError

PACKAGES = "spark.jars.packages"
JARS = "spark.jars"
SCALA = "2.13"
_BUNDLE_OF = {"kafka": "kafka", "event_hubs": "kafka"}  # kind of connector: bundle
SPARK_GROUP = "org.apache.spark"
_COORDINATE = re.compile(
    r"(?P<group>[\w.-]+):(?P<artifact>[\w.-]+)_(?P<scala>\d+\.\d+):(?P<version>[\w.-]+)"
)
_JAR = re.compile(
    r"(?P<group>)(?P<artifact>[\w.-]+)_(?P<scala>\d+\.\d+)-(?P<version>[\w.-]+)\.jar$"
)
_WORD = re.compile(r"\b(?:kafka|event_hubs)\b")


@dataclass(frozen=True, slots=True)
class Bundle:
    """`coordinate` is what Spark's resolver takes; None for what no session loads."""

    name: str
    what: str
    coordinate: str | None = None


BUNDLES = {
    one.name: one
    for one in (
        Bundle(
            "kafka",
            "Spark's connector for Kafka and Event Hubs",
            "org.apache.spark:spark-sql-kafka-0-10_${scala}:${spark}",
        ),
        Bundle("broker", "a Kafka broker and its tools, for headrace kafka up"),
    )
}


def spark_version() -> str:
    return version("pyspark")


def pom(bundle: Bundle) -> str:
    text = (files("headrace.connectors") / "poms" / f"{bundle.name}.xml").read_text("utf-8")
    return _filled(text)


def coordinate(bundle: Bundle) -> str | None:
    return _filled(bundle.coordinate) if bundle.coordinate else None


def folder(bundle: Bundle) -> Path:
    """Beside the installation it belongs to; of a connector one for each version of Spark."""
    name = f"{bundle.name}-{spark_version()}" if bundle.coordinate else bundle.name
    return Path(sys.prefix) / "share" / "headrace" / "jars" / name


def fetched(bundle: Bundle) -> list[Path]:
    return sorted(folder(bundle).glob("*.jar"))


def fetched_version(bundle: Bundle) -> str | None:
    """Of the connector itself, which may be older than Spark."""
    artifact = _plain(bundle.coordinate.split(":")[1]) if bundle.coordinate else None
    parts = (_parts(path.name) for path in fetched(bundle))
    return next((one["version"] for one in parts if one and one["artifact"] == artifact), None)


def needed(found: Iterable[Path], own: Iterable[Path]) -> list[Path]:
    """Without those that Spark brings along: two versions of one class are a fault to look for."""
    has = {_artifact(path.name) for path in own}
    return [path for path in found if _artifact(path.name) not in has]


def wanted(kinds: Iterable[str], code: Iterable[str]) -> set[str]:
    """Bundles of these kinds of connectors, and of those that code speaks of: what it uses is known
    only once it runs, and by then the JVM has to have them."""
    spoken = {word for text in code for word in _WORD.findall(text)}
    return {_BUNDLE_OF[one] for one in {*kinds, *spoken} if one in _BUNDLE_OF}


def settings(names: Iterable[str], user: Mapping[str, str]) -> dict[str, str]:
    """What a session has to be told to have these bundles, beside what the user gives it. Raises
    if the user gives it a connector of another Spark."""
    jars, packages = [], []
    for bundle in (BUNDLES[name] for name in sorted(set(names))):
        wanted = coordinate(bundle)
        if wanted is None or _is_given(wanted, user):
            continue
        if found := fetched(bundle):
            jars += [str(path) for path in found]
        else:
            packages.append(wanted)
    made = {}
    if jars:
        made[JARS] = ",".join([*filter(None, [user.get(JARS)]), *jars])
    if packages:
        made[PACKAGES] = ",".join([*filter(None, [user.get(PACKAGES)]), *packages])
    return made


def _is_given(wanted: str, user: Mapping[str, str]) -> bool:
    """Whether the user's own settings have it; raises if that one is of another version."""
    artifact = _plain(wanted.split(":")[1])
    for key in (JARS, PACKAGES):
        for one in listed(user.get(key, "")):
            found = _parts(one)
            if found is None or found["artifact"] != artifact:
                continue
            if bad := misfit(one):
                raise ConfigError(
                    f"{key} has {bad.words}",
                    why=MISFIT_WHY,
                    where="[spark]",
                    fix=f"Take {bad.fits}, or remove it and run: headrace jars fetch kafka.",
                    slug="jars-mismatch",
                )
            return True
    return False


@dataclass(frozen=True, slots=True)
class Misfit:
    """A coordinate or jar of another Spark or Scala, and the coordinate that fits. `bundle` is what
    can be fetched in its place."""

    given: str
    fits: str
    bundle: Bundle | None

    @property
    def words(self) -> str:
        return f"{self.given}, and PySpark here is {spark_version()} (Scala {SCALA})."


MISFIT_WHY = "A connector works with the Spark and the Scala that it was built for, and no other."


def misfit(given: str) -> Misfit | None:
    """None for what fits, and for what does not say what it was built for."""
    found = _parts(given)
    if found is None:
        return None
    ours = {_plain(one.split(":")[1]): b for b in BUNDLES.values() if (one := coordinate(b))}
    is_sparks = found["group"] == SPARK_GROUP or found["artifact"] in ours
    if found["scala"] == SCALA and not (is_sparks and not _is_near(found["version"])):
        return None
    group = found["group"] or SPARK_GROUP
    fits = f"{group}:{found['artifact']}_{SCALA}:{spark_version() if is_sparks else 'VERSION'}"
    return Misfit(given, fits, ours.get(found["artifact"]))


def listed(text: str) -> list[str]:
    return [one for one in re.split(r"[,\s]+", text) if one]


def _parts(one: str) -> re.Match[str] | None:
    return _COORDINATE.fullmatch(one) or _JAR.search(one)


def _is_near(version_: str) -> bool:
    """Of the same minor version: its connectors may be exchanged."""
    return version_.split(".")[:2] == spark_version().split(".")[:2]


def _plain(artifact: str) -> str:
    return artifact.rpartition("_")[0]


def _artifact(name: str) -> str:
    """spark-sql_2.13-4.2.0.jar and lz4-java-1.8.0.jar without their versions."""
    return re.sub(r"-\d[\w.-]*\.jar$", "", name)


def _filled(text: str) -> str:
    spark = spark_version()
    return string.Template(text).substitute(spark=spark, scala=SCALA, near=_near(spark))


def _near(spark: str) -> str:
    """Maven's way to say: this version, else the newest before it of the same minor version. Not
    one range, as Maven takes 4.2.0-preview2 to be newer than 4.2.0."""
    minor, _, patch = spark.rpartition(".")
    patches = range(int(patch) + 1) if patch.isdecimal() else [patch]
    return ",".join(f"[{minor}.{one}]" for one in patches)
