"""Files for Prometheus and Grafana that the package contains, in files/."""

from __future__ import annotations

from pathlib import Path

DASHBOARD, RULES = "dashboard.json", "rules.yml"
_FOLDER = Path(__file__).parent / "files"


def read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
