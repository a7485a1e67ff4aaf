"""Microsoft Teams, by a workflow's webhook: an Adaptive Card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace import secrets
from headrace.alerts import message_text
from headrace.alerts.notifiers import http
from headrace.model.notices import Notice, NoticeKind

TEXT_CHARS = 4_000
_COLOURS = {"critical": "attention", "error": "attention", "warning": "warning"}


@dataclass(frozen=True, slots=True)
class Teams:
    url: str

    def __post_init__(self) -> None:
        http.require_url("url", self.url, is_secret=True)

    def send(self, notice: Notice) -> str:
        return http.post_json(secrets.resolve(self.url), message(notice))


def message(notice: Notice) -> dict[str, Any]:
    """The body of the request. Pure."""
    is_over = notice.kind == NoticeKind.RESOLVE
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {
                "type": "TextBlock",
                "text": _escape(message_text.subject(notice))[:TEXT_CHARS],
                "weight": "bolder",
                "wrap": True,
                "color": "good" if is_over else _COLOURS.get(notice.severity, "default"),
            },
        ],
    }
    if facts := message_text.facts(notice):
        shown = [{"title": h, "value": _escape(text)[:TEXT_CHARS]} for h, text in facts.items()]
        card["body"].append({"type": "FactSet", "facts": shown})
    if notice.link:
        card["actions"] = [
            {"type": "Action.OpenUrl", "title": "Open in Headrace", "url": notice.link}
        ]
    return {
        "type": "message",
        "attachments": [
            {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
        ],
    }


def _escape(text: str) -> str:
    """Cards render Markdown: links and emphasis in a row's text must stay text."""
    for character in "\\`*_[]<>":
        text = text.replace(character, f"\\{character}")
    return text
