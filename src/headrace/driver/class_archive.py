"""Java's class data sharing archive: Spark's classes, parsed and verified once.

A driver loads about 20,000 classes before its first batch. `headrace warm` archives them, and later
JVMs map the archive into memory (JDK 17 and 21). The JVM ignores an archive that does not match its
version of Java or Spark.
"""

from __future__ import annotations

import sys
from pathlib import Path


def default_path() -> Path:
    """In the virtual environment, so that it is deleted with it."""
    return Path(sys.prefix) / "share" / "headrace" / "spark-classes.jsa"


def use(archive: Path) -> str:
    """Java options that use the archive, if it exists."""
    if not archive.exists():
        return ""
    return f'"-XX:SharedArchiveFile={archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def make(archive: Path) -> str:
    """Java options that write the archive when the JVM exits."""
    return f'"-XX:ArchiveClassesAtExit={archive}" -Xlog:disable'
