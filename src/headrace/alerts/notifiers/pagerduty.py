"""PagerDuty, Events API v2: trigger, acknowledge and resolve with one dedup key."""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace import secrets
from headrace.alerts import message_text
from headrace.alerts.notifiers import http
from headrace.connectors.connector import require_secret_reference
from headrace.model.notices import Notice, NoticeKind

URL = "https://events.pagerduty.com/v2/enqueue"
SUMMARY_CHARS = 1024  # limits of the service
KEY_CHARS = 255
DETAIL_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class PagerDuty:
    routing_key: str
    url: str = URL

    def __post_init__(self) -> None:
        require_secret_reference("routing_key", self.routing_key)
        http.require_url("url", self.url)

    def send(self, notice: Notice) -> str:
        key = secrets.resolve(self.routing_key)
        return http.post_json(secrets.resolve(self.url), event(notice, key))


def event(notice: Notice, routing_key: str) -> dict[str, Any]:
    """The body of the request. Pure."""
    body: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": str(notice.kind),
        "dedup_key": dedup_key(notice.key),
    }
    if notice.kind != NoticeKind.TRIGGER:
        return body
    details = {name: text[:DETAIL_CHARS] for name, text in message_text.facts(notice).items()}
    body |= {
        "client": "Headrace",
        "payload": {
            "summary": message_text.subject(notice)[:SUMMARY_CHARS],
            "source": socket.gethostname(),
            "severity": notice.severity,
            "timestamp": datetime.fromtimestamp(notice.opened_at, UTC).isoformat(),
            "component": "/".join(part for part in (notice.pipeline, notice.query) if part),
            "group": notice.project,
            "class": notice.rule,
            "custom_details": details,
        },
    }
    if notice.link:
        body |= {
            "client_url": notice.link,
            "links": [{"href": notice.link, "text": "Open in Headrace"}],
        }
    return body


def dedup_key(key: str) -> str:
    """The key itself, or, if it is too long, its beginning and a hash."""
    if len(key) <= KEY_CHARS:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"{key[: KEY_CHARS - 33]}#{digest}"
