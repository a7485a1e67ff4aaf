"""The command `headrace`, and `python -m headrace`."""

from __future__ import annotations

import sys


def main() -> None:
    """Ctrl-C may come while Python still imports: no traceback for that."""
    try:
        from headrace.cli.main import main as headrace
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
    headrace()


if __name__ == "__main__":
    main()
