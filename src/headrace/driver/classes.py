"""Spark's classes, read and checked once: an archive that every later JVM maps into its memory.

A driver loads some twenty thousand classes before its first batch. Java can keep them (class data
sharing, JDK 17 and 21). An archive that does not fit any more, since Java or Spark were changed, is
left aside by the JVM itself: it starts as slowly as before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.errors import SetupError

WITHIN_S = 300.0


def kept() -> Path:
    """Beside the installation it belongs to: gone with it."""
    return Path(sys.prefix) / "share" / "headrace" / "spark-classes.jsa"


def use(archive: Path) -> str:
    """The options of Java that use it; none while there is none."""
    if not archive.exists():
        return ""
    return f'"-XX:SharedArchiveFile={archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def keep(archive: Path) -> None:
    """Rehearse a pipeline, and have its JVM write what it loaded. Takes about a minute."""
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            _written(Path(scratch)).replace(archive)
    except OSError as exc:
        raise _failed(str(exc)) from exc


def _written(scratch: Path) -> Path:
    fresh = scratch / "fresh.jsa"
    command = [sys.executable, "-m", "headrace.driver.rehearsal", str(scratch), str(fresh)]
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=scratch, env={**os.environ}
    )
    try:
        # The JVM has the same output, and writes at its very end: no end of output before that.
        out, _ = run.communicate(timeout=WITHIN_S)
    except subprocess.TimeoutExpired as exc:
        run.kill()
        raise _failed(f"it was not done within {WITHIN_S:.0f} s") from exc
    if run.returncode or not fresh.exists():
        raise _failed(out.decode(errors="replace").strip()[-2000:] or "Java wrote no archive")
    return fresh


def _failed(why: str) -> SetupError:
    return SetupError(
        "Spark's classes could not be kept ready.",
        why=why,
        where=str(kept()),
        fix="pipelines run without it; run `headrace warm` as the one who installed Headrace",
        slug="warm-failed",
    )
