"""Logs problems of the relay: a line when one begins, a line when it is over."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

logger = logging.getLogger(__name__)

_VARIES = re.compile(r"\([^)]*\)")  # times and counts in a client's message


class ProblemLog:
    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def tell(self, problems: Iterable[str]) -> None:
        now = {_VARIES.sub("", one): one for one in sorted(set(problems), reverse=True)}
        for same in sorted(now.keys() - self._said.keys()):
            logger.warning("%s", now[same])
        for same in sorted(self._said.keys() - now.keys()):
            logger.info("no longer: %s", self._said[same])
        self._said = now
