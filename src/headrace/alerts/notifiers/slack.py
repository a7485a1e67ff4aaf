"""Slack, by an incoming webhook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace import secrets
from headrace.alerts import message_text
from headrace.alerts.notifiers import http
from headrace.model.notices import Notice

TEXT_CHARS = 2_900  # a section has at most 3,000


@dataclass(frozen=True, slots=True)
class Slack:
    url: str

    def __post_init__(self) -> None:
        http.require_url("url", self.url, is_secret=True)

    def send(self, notice: Notice) -> str:
        return http.post_json(secrets.resolve(self.url), message(notice))


def message(notice: Notice) -> dict[str, Any]:
    """The body of the request. Pure."""
    subject = _escape(message_text.subject(notice))
    facts = [f"*{_escape(h)}*: {_escape(t)}" for h, t in message_text.facts(notice).items()]
    link = [f"<{notice.link}|Open in Headrace>"] if notice.link else []
    blocks = [f"*{subject}*", "\n".join([*facts, *link])]
    return {
        "text": subject[:TEXT_CHARS],
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": text[:TEXT_CHARS]}}
            for text in blocks
            if text
        ],
    }


def _escape(text: str) -> str:
    """Slack reads <…> as links and mentions: <!channel> in a row must not notify everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
