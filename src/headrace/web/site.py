"""What a request meets: the project behind the page, and who is asking for what.

Handlers are plain functions from a `Visit` to JSON, or to a response of their own. They are told
everything by it, so that they can be called without a server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import references
from headrace.config import Settings
from headrace.errors import ConfigError
from headrace.model.places import Places
from headrace.project.workspace import Workspace
from headrace.state.keys import Key

if TYPE_CHECKING:
    from headrace.web.watch import Watch

TEXT_MAX = 200
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")  # JSON may hold these; no name or file does


@dataclass(frozen=True)
class Site:
    """Lives as long as the process. `clock` is the wall's."""

    settings: Settings
    clock: Callable[[], float] = time.time
    watch: Watch | None = field(default=None, compare=False)

    @property
    def places(self) -> Places:
        return Places(self.settings.state)

    @property
    def folder(self) -> Path:
        return self.settings.project

    def secrets(self) -> frozenset[str]:
        """To be taken out of whatever is shown."""
        return references.values(self.settings.raw)

    def work(self) -> Workspace:
        """Anew for each request: it remembers what it has found."""
        return Workspace(self.settings)


@dataclass(frozen=True)
class Visit:
    site: Site
    who: Key | None = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    caller: str = "?"  # the address it comes from

    @property
    def now(self) -> float:
        return self.site.clock()

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number of the query string, within its limits."""
        given = self.query.get(name)
        if given is None:
            return default
        try:
            found = float(given)
        except ValueError:
            found = float("nan")
        if not least <= found <= most:
            raise ConfigError(
                f"{name}={given[:TEXT_MAX]!r} is not a number from {least:g} to {most:g}.",
                fix=f"leave it out (it is {default:g} then), or give one in between",
                slug="bad-value",
            )
        return found

    def text(self, name: str, most: int = TEXT_MAX) -> str | None:
        """A text of the body, if it is one."""
        given = self.body.get(name)
        if given is None:
            return None
        if not isinstance(given, str) or len(given) > most or _NO_TEXT.search(given):
            raise ConfigError(
                f"{name} has to be a text of at most {most:,} characters.", slug="bad-value"
            )
        return given
