"""PagerDuty, Events API v2: trigger, acknowledge and resolve with one dedup key.

With a token for the REST API, the relay also asks who has acknowledged an incident there.
"""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from headrace import secrets
from headrace.alerts import message_text
from headrace.alerts.notifiers import http
from headrace.alerts.notifiers.notifier import Acknowledgement
from headrace.connectors.connector import require_secret_reference
from headrace.failures.redaction import redact
from headrace.model.notices import Notice, NoticeKind
from headrace.model.times import parse_time

URL = "https://events.pagerduty.com/v2/enqueue"
API_URL = "https://api.pagerduty.com"
API_REPLY_BYTES = 1024 * 1024
SUMMARY_CHARS = 1024  # limits of the service
KEY_CHARS = 255
DETAIL_CHARS = 4_000
NAME_CHARS = 100


@dataclass(frozen=True, slots=True)
class PagerDuty:
    routing_key: str
    url: str = URL
    api_token: str | None = None
    api_url: str = API_URL

    def __post_init__(self) -> None:
        require_secret_reference("routing_key", self.routing_key)
        require_secret_reference("api_token", self.api_token)
        http.require_url("url", self.url)
        http.require_url("api_url", self.api_url)

    def send(self, notice: Notice) -> str:
        key = secrets.resolve(self.routing_key)
        return http.post_json(secrets.resolve(self.url), event(notice, key))

    @property
    def has_api(self) -> bool:
        return self.api_token is not None

    def find_acknowledgement(self, key: str) -> Acknowledgement | None:
        query = [("incident_key", dedup_key(key)), ("statuses[]", "acknowledged"), ("limit", "5")]
        headers = {
            "Accept": "application/vnd.pagerduty+json;version=2",
            "Authorization": f"Token token={secrets.resolve(self.api_token or '')}",
            "Content-Type": "application/json",
        }
        url = f"{secrets.resolve(self.api_url).rstrip('/')}/incidents?{urlencode(query)}"
        return read_acknowledgement(http.get_json(url, headers, API_REPLY_BYTES))


def read_acknowledgement(body: Any) -> Acknowledgement | None:
    """The last acknowledgement in a list of incidents, whatever else the reply contains. Pure."""
    found = []
    for incident in _list_of_objects(body, "incidents"):
        if incident.get("status") != "acknowledged":
            continue
        for one in _list_of_objects(incident, "acknowledgements"):
            person = one.get("acknowledger")
            name = person.get("summary") if isinstance(person, dict) else None
            if (at := parse_time(one.get("at"))) is not None:
                name = redact(str(name or "a user"), secrets.resolved_values())[:NAME_CHARS]
                found.append(Acknowledgement(f"pagerduty: {name}", at))
    return max(found, key=lambda one: one.at, default=None)


def _list_of_objects(body: Any, name: str) -> list[dict[str, Any]]:
    given = body.get(name) if isinstance(body, dict) else None
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


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
