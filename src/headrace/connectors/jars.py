"""Java jars that a connector needs in addition to Spark, and the settings that load them.

Jars downloaded by `headrace jars fetch` are used first: they need no network and no time at each
start. Otherwise Spark resolves the Maven coordinate that matches the installed PySpark.
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

from headrace.connectors.kinds import KINDS
from headrace.errors import ConfigError

PACKAGES = "spark.jars.packages"
JARS = "spark.jars"
SCALA = "2.13"
_BUNDLE_OF = {name: kind.jars for name, kind in KINDS.items() if kind.jars}
SPARK_GROUP = "org.apache.spark"
_COORDINATE = re.compile(
    r"(?P<group>[\w.-]+):(?P<artifact>[\w.-]+)_(?P<scala>\d+\.\d+):(?P<version>[\w.-]+)"
)
_JAR = re.compile(
    r"(?P<group>)(?P<artifact>[\w.-]+)_(?P<scala>\d+\.\d+)-(?P<version>[\w.-]+)\.jar$"
)
_WORD = re.compile(rf"\b(?:{'|'.join(_BUNDLE_OF)})\b")


@dataclass(frozen=True, slots=True)
class Bundle:
    """`coordinate` is Maven's, for Spark to resolve; None if no session loads the bundle."""

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
    return _fill_template(text)


def coordinate(bundle: Bundle) -> str | None:
    return _fill_template(bundle.coordinate) if bundle.coordinate else None


def folder(bundle: Bundle) -> Path:
    """In the Python installation; connectors have one folder for each Spark version."""
    name = f"{bundle.name}-{spark_version()}" if bundle.coordinate else bundle.name
    return Path(sys.prefix) / "share" / "headrace" / "jars" / name


def fetched_files(bundle: Bundle) -> list[Path]:
    return sorted(folder(bundle).glob("*.jar"))


def fetched_version(bundle: Bundle) -> str | None:
    """The version of the connector, which may be older than Spark."""
    artifact = _base_name(bundle.coordinate.split(":")[1]) if bundle.coordinate else None
    parts = (_parts(path.name) for path in fetched_files(bundle))
    return next((one["version"] for one in parts if one and one["artifact"] == artifact), None)


def exclude_provided(found: Iterable[Path], own: Iterable[Path]) -> list[Path]:
    """Leave out jars that Spark contains: two versions of a class cause obscure errors."""
    has = {_artifact(path.name) for path in own}
    return [path for path in found if _artifact(path.name) not in has]


def detect_bundles(kinds: Iterable[str], code: Iterable[str]) -> set[str]:
    """Bundles for these kinds, and for kinds whose name appears in the code: the JVM must load the
    jars before the code runs."""
    mentioned = {word for text in code for word in _WORD.findall(text)}
    return {_BUNDLE_OF[one] for one in {*kinds, *mentioned} if one in _BUNDLE_OF}


def settings(names: Iterable[str], user: Mapping[str, str]) -> dict[str, str]:
    """Spark settings that load these bundles in addition to the user's jars. Raises if one of
    those is a connector for another Spark version."""
    jars, packages = [], []
    for bundle in (BUNDLES[name] for name in sorted(set(names))):
        wanted = coordinate(bundle)
        if wanted is None or _is_given(wanted, user):
            continue
        if found := fetched_files(bundle):
            jars += [str(path) for path in found]
        else:
            packages.append(wanted)
    given = {JARS: jars, PACKAGES: packages}
    return {
        key: ",".join(filter(None, [user.get(key), *given[key]])) for key in given if given[key]
    }


def _is_given(wanted: str, user: Mapping[str, str]) -> bool:
    artifact = _base_name(wanted.split(":")[1])
    for key in (JARS, PACKAGES):
        for one in split_list(user.get(key, "")):
            found = _parts(one)
            if found is None or found["artifact"] != artifact:
                continue
            if bad := find_mismatch(one):
                raise ConfigError(
                    f"{key} contains {bad.words}",
                    why=MISFIT_WHY,
                    where="[spark]",
                    fix=f"Use {bad.fits} instead, or remove the entry from {key} and run headrace "
                    "jars fetch kafka.",
                    slug="jars-mismatch",
                )
            return True
    return False


@dataclass(frozen=True, slots=True)
class JarMismatch:
    """A coordinate or jar for another Spark or Scala version, and the coordinate that matches.
    `bundle` can be fetched instead."""

    given: str
    fits: str
    bundle: Bundle | None

    @property
    def words(self) -> str:
        return f"{self.given}, but the installed PySpark is {spark_version()} (Scala {SCALA})."


MISFIT_WHY = "A connector works only with the Spark and Scala versions that it was built for."


def find_mismatch(given: str) -> JarMismatch | None:
    """None if it matches, or if its name does not contain the versions."""
    found = _parts(given)
    if found is None:
        return None
    ours = {_base_name(one.split(":")[1]): b for b in BUNDLES.values() if (one := coordinate(b))}
    is_sparks = found["group"] == SPARK_GROUP or found["artifact"] in ours
    if found["scala"] == SCALA and not (is_sparks and not _is_same_minor(found["version"])):
        return None
    group = found["group"] or SPARK_GROUP
    fits = f"{group}:{found['artifact']}_{SCALA}:{spark_version() if is_sparks else 'VERSION'}"
    return JarMismatch(given, fits, ours.get(found["artifact"]))


def split_list(text: str) -> list[str]:
    return [one for one in re.split(r"[,\s]+", text) if one]


def _parts(one: str) -> re.Match[str] | None:
    return _COORDINATE.fullmatch(one) or _JAR.search(one)


def _is_same_minor(version_: str) -> bool:
    """Connectors of the same minor version are compatible."""
    return version_.split(".")[:2] == spark_version().split(".")[:2]


def _base_name(artifact: str) -> str:
    return artifact.rpartition("_")[0]


def _artifact(name: str) -> str:
    """spark-sql_2.13-4.2.0.jar and lz4-java-1.8.0.jar without their versions."""
    return re.sub(r"-\d[\w.-]*\.jar$", "", name)


def _fill_template(text: str) -> str:
    spark = spark_version()
    return string.Template(text).substitute(spark=spark, scala=SCALA, near=_version_range(spark))


def _version_range(spark: str) -> str:
    """A Maven range: this version, or else the newest earlier patch version. A list and not one
    range because Maven considers 4.2.0-preview2 newer than 4.2.0."""
    minor, _, patch = spark.rpartition(".")
    patches = range(int(patch) + 1) if patch.isdecimal() else [patch]
    return ",".join(f"[{minor}.{one}]" for one in patches)
