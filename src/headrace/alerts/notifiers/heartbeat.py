"""A dead man's switch: a service that reports when pings stop, such as healthchecks.io.

It gets no alerts. `relay/heartbeats.py` pings it while the supervisor works.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace import secrets
from headrace.alerts.notifiers import http
from headrace.connectors.connector import require_choice
from headrace.durations import parse_duration
from headrace.errors import ConnectorError

EVERY_S_MIN = 1.0
METHODS = ("GET", "POST")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    url: str
    every: object = "1 minute"
    method: str = "GET"

    def __post_init__(self) -> None:
        http.require_url("url", self.url, is_secret=True)
        require_choice("method", self.method, METHODS)
        if self.every_s < EVERY_S_MIN:
            raise ConnectorError(
                f"Invalid every: {self.every!r}. It must be at least {EVERY_S_MIN:g} s.",
                fix='Write, for example, every = "1 minute".',
                slug="bad-option",
            )

    @property
    def every_s(self) -> float:
        return parse_duration(self.every)

    def ping(self) -> str:
        """The reply of the service. Raises DeliveryError."""
        url = secrets.resolve(self.url)
        return http.get(url) if self.method == "GET" else http.post(url, b"", {})
