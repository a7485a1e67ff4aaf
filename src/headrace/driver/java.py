"""Is there a Java that Spark can run on? Asked before anything is started, answered in words."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from headrace.errors import SetupError

OLDEST = 17
FIX = "install Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


def check() -> int:
    """The major version of the Java that spark-submit will use: JAVA_HOME first, then PATH."""
    java = executable()
    version = _release(java)
    if version is not None and version < OLDEST:
        raise SetupError(
            f"Java {version} is too old: Spark 4.2 needs Java {OLDEST} or later.",
            where=str(java),
            fix=FIX,
            slug="java-too-old",
        )
    return version or OLDEST


def executable() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise SetupError(
                "JAVA_HOME does not lead to a Java.",
                why=f"there is no program {java}",
                fix=FIX,
                slug="java-missing",
            )
        return java
    found = shutil.which("java")
    if found is None:
        raise SetupError(
            "Java was not found: Spark runs on it.",
            why="JAVA_HOME is not set and there is no `java` on PATH",
            fix=FIX,
            slug="java-missing",
        )
    return Path(found)


def _release(java: Path) -> int | None:
    """From the `release` file of the installation: no process is needed to ask `java -version`."""
    release = java.resolve().parent.parent / "release"
    try:
        text = release.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # unusual layout: let Spark try
    match = re.search(r'JAVA_VERSION="(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major  # "1.8.0" is Java 8
