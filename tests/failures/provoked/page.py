"""Writes docs/reference/failures.md: `python tests/failures/provoked/page.py`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "failures.md"


def text() -> str:
    from headrace.failures import reference_page
    from provoked import all_cases

    return reference_page.render(
        reference_page.Provoked(case.how, case.slug, case.kind) for case in all_cases.CASES
    )


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "failures")]
    PAGE.write_text(text(), encoding="utf-8")
