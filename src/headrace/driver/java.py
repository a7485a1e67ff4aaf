"""Checks that there is a Java that Spark supports, before Spark starts."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from headrace.errors import SetupError

OLDEST = 17
FIX = "Install Java 17 or 21 (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME."


def check() -> int:
    """The major version of the Java that spark-submit uses: JAVA_HOME first, then PATH."""
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
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    if java is not None and os.access(java, os.X_OK):
        return Path(java)
    what, why = "Java not found.", "JAVA_HOME is not set, and there is no `java` on PATH."
    if home:
        what, why = (
            "JAVA_HOME does not contain Java.",
            f"{java} does not exist or is not executable.",
        )
    raise SetupError(what, why=why, fix=FIX, slug="java-missing")


def _release(java: Path) -> int | None:
    """From the `release` file of the installation, which is faster than `java -version`."""
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
