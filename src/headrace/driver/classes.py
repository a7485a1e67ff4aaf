"""Spark's classes, read and checked once: an archive that every later JVM maps into its memory.

A driver loads some twenty thousand classes before its first batch. Java can keep them (class data
sharing, JDK 17 and 21); `headrace warm` has it done. An archive that does not fit any more, since
Java or Spark were changed, is left aside by the JVM itself: it starts as slowly as before.
"""

from __future__ import annotations

import sys
from pathlib import Path


def kept() -> Path:
    """Beside the installation it belongs to: gone with it."""
    return Path(sys.prefix) / "share" / "headrace" / "spark-classes.jsa"


def use(archive: Path) -> str:
    """The options of Java that use it; none while there is none."""
    if not archive.exists():
        return ""
    return f'"-XX:SharedArchiveFile={archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def make(archive: Path) -> str:
    """The options of a JVM that writes it at its end."""
    return f'"-XX:ArchiveClassesAtExit={archive}" -Xlog:disable'
