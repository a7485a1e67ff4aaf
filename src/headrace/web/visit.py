"""The arguments of every handler: the project (`Site`) and the request (`Visit`).

Handlers are plain functions from a `Visit` to JSON or to a response, so tests can call them without
a server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace import secrets
from headrace.config import Settings
from headrace.errors import ConfigError
from headrace.failures.redaction import redact
from headrace.model.state_paths import StatePaths
from headrace.project.workspace import Workspace
from headrace.state.api_keys import Key

if TYPE_CHECKING:
    from headrace.web.overview_feed import OverviewFeed

TEXT_MAX = 200
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")  # valid in JSON, never in a name or file


@dataclass(frozen=True)
class Site:
    """Lives as long as the process. `clock` is wall-clock time."""

    settings: Settings
    clock: Callable[[], float] = time.time
    feed: OverviewFeed | None = field(default=None, compare=False)

    @property
    def places(self) -> StatePaths:
        return StatePaths(self.settings.state)

    def secrets(self) -> frozenset[str]:
        """Values to remove from everything that is shown."""
        return secrets.values(self.settings.raw)

    def workspace(self) -> Workspace:
        """A new one for each request, because it caches what it reads."""
        return Workspace(self.settings)


@dataclass(frozen=True)
class Visit:
    site: Site
    who: Key | None = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    caller: str = "?"  # the client's address

    @property
    def now(self) -> float:
        return self.site.clock()

    @property
    def feed(self) -> OverviewFeed:
        assert self.site.feed is not None  # noqa: S101 - set by app.build
        return self.site.feed

    @property
    def user(self) -> Key:
        assert self.who is not None  # noqa: S101 - only open endpoints are reached without a key
        return self.who

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number from the query string, within its limits."""
        given = self.query.get(name)
        if given is None:
            return default
        try:
            found = float(given)
        except ValueError:
            found = float("nan")
        if not least <= found <= most:
            raise ConfigError(
                f"Invalid value for {name}: {given[:TEXT_MAX]!r}.",
                why=f"Allowed: numbers from {least:g} to {most:g}.",
                fix=f"Omit {name} to use the default ({default:g}).",
                slug="bad-value",
            )
        return found

    def text(self, name: str, most: int = TEXT_MAX) -> str | None:
        """A text from the body, if it is there."""
        given = self.body.get(name)
        if given is None:
            return None
        if not isinstance(given, str) or len(given) > most or _NO_TEXT.search(given):
            raise ConfigError(
                f"{name} must be a string of at most {most:,} characters.", slug="bad-value"
            )
        return given

    def redacted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Removes secrets from every string, including those in nested lists and objects."""
        secrets = self.site.secrets()

        def clean(value: Any) -> Any:
            if isinstance(value, str):
                return redact(value, secrets)
            if isinstance(value, dict):
                return {key: clean(item) for key, item in value.items()}
            return [clean(item) for item in value] if isinstance(value, list | tuple) else value

        return {key: clean(value) for key, value in body.items()}
