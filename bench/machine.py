"""What was measured, where and when: facts that stand beside every figure."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

REPO = Path(__file__).parent.parent
LOAD_MAX = 1.0
# An experiment before this one has written its own figures: no change of what is measured.
MEASURED = ("--", ".", ":(exclude)bench/results.json", ":(exclude)docs")


def facts(folder: Path) -> dict[str, Any]:
    """No names of machines or people in here: the file is published."""
    return {
        "cores": cores(),
        "cpu": _cpu(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "filesystem": _filesystem(folder),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "java": _java(),
        "pyspark": metadata.version("pyspark"),
        "pyspark_pinned": pinned("pyspark", (REPO / "constraints.txt").read_text()),
    }


def pinned(package: str, constraints: str) -> str:
    """The version that `make` installs; in an environment made otherwise it may be another."""
    found = re.search(rf"^{package}==(\S+)", constraints, flags=re.MULTILINE)
    return found[1] if found else ""


def cores() -> int:
    return os.cpu_count() or 1


def moment() -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _git("rev-parse", "--short=12", "HEAD") or "unknown",
        "is_changed": bool(_git("status", "--porcelain", "--untracked-files=no", *MEASURED)),
    }


def load() -> float:
    """Of the last minute, or what is running right now if that is more."""
    busy = psutil.cpu_percent(interval=1.0) / 100 * cores()
    return round(max(os.getloadavg()[0], busy), 2)


def settle(seconds: float) -> None:
    """Between two sides: what the last one left to be written is written now, not in the next."""
    os.sync()
    time.sleep(seconds)


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", path.read_text()) if path.exists() else None
    return found[1].strip() if found else platform.machine()


def _filesystem(folder: Path) -> str:
    parts = [p for p in psutil.disk_partitions(all=True) if folder.is_relative_to(p.mountpoint)]
    return max(parts, key=lambda p: len(p.mountpoint)).fstype if parts else "unknown"


def _java() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "([^"]+)"', done.stderr)
    return found[1] if found else "unknown"


def _git(*words: str) -> str:
    try:
        command = ["git", "-C", str(REPO), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
