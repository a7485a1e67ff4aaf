"""`python -m headrace.project.channel_test PROJECT PROFILE`: tests the channel that stdin names.

The page runs it as a child: only the child sends secrets, and a service that hangs is abandoned at
the deadline. Invariant: `run` returns the replies or raises an error, within the deadline, and
neither contains a secret.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from headrace import config
from headrace.config import Settings
from headrace.errors import Error, NotifyError, error_from_dict
from headrace.failures.redaction import redact
from headrace.project import alerts
from headrace.project.workspace import Workspace
from headrace.secrets import values

TIMEOUT_S = 45.0  # a test is two notices of at most 20 s each, and the start of Python

logger = logging.getLogger(__name__)


def run(settings: Settings, name: str, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """The replies of the service by kind of notice. Raises the error of the test."""
    project, profile = str(settings.project), settings.profile
    command = (sys.executable, "-P", "-m", "headrace.project.channel_test", project, profile)
    try:
        done = subprocess.run(
            command,
            input=json.dumps(name),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as exc:
        raise NotifyError(
            f"The test of {name} took longer than {timeout_s:g} s.",
            why="The service accepts connections but does not answer.",
            where=settings.place("notify", name),
            fix="Check the address of the channel, and whether the service is available.",
        ) from exc
    secrets = values(settings.raw)
    try:
        reply = json.loads(done.stdout)
        if "error" in reply:
            raise error_from_dict(_clean(reply["error"], secrets), NotifyError)
        return _clean(reply["replies"], secrets)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        errors = redact(done.stderr, secrets)
        logger.error("the test of %s ended with %s: %s", name, done.returncode, errors[-4000:])
        raise NotifyError(
            f"The test of {name} ended unexpectedly.",
            where="web.log in the state folder",
            fix=f"Run `headrace alerts test {name}` to see the whole error.",
        ) from exc


def _clean(texts: Mapping[str, str | None], secrets: Collection[str]) -> dict[str, str]:
    return {name: redact(text, secrets) for name, text in texts.items() if text is not None}


def main() -> int:
    settings = config.load(Path(sys.argv[1]), sys.argv[2])
    try:
        body = {"replies": alerts.send_test(Workspace(settings), json.load(sys.stdin))}
    except Error as exc:
        sys.stdout.write(json.dumps({"error": exc.as_dict()}))
        return exc.exit_code
    sys.stdout.write(json.dumps(body))
    return 0


if __name__ == "__main__":
    sys.exit(main())
