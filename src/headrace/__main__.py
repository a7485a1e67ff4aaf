"""The command `headrace`, and `python -m headrace`."""

from __future__ import annotations

import sys


def main() -> None:
    """Ctrl-C during the import shows no traceback."""
    try:
        from headrace.cli.main import main as headrace
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
    headrace()


if __name__ == "__main__":
    main()
