"""Any service that the apprise library knows, by its URL. Needs `headrace[apprise]`."""

from __future__ import annotations

from dataclasses import dataclass

from headrace import secrets
from headrace.alerts import message_text
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.connectors.connector import require_secret_reference
from headrace.errors import ConnectorError
from headrace.model.notices import Notice, NoticeKind

_TYPES = {"critical": "failure", "error": "failure", "warning": "warning"}


@dataclass(frozen=True, slots=True)
class Apprise:
    url: str

    def __post_init__(self) -> None:
        require_secret_reference("url", self.url)

    def send(self, notice: Notice) -> str:
        try:
            import apprise
        except ImportError as exc:
            raise ConnectorError(
                "The apprise package is not installed.",
                fix='pip install "headrace[apprise]"',
                slug="missing-extra",
            ) from exc
        service = apprise.Apprise()
        if not service.add(secrets.resolve(self.url)):
            raise DeliveryError("apprise does not support this kind of URL", is_permanent=True)
        is_over = notice.kind == NoticeKind.RESOLVE
        sent = service.notify(
            title=message_text.subject(notice),
            body="\n".join(message_text.lines(notice)),
            notify_type="success" if is_over else _TYPES.get(notice.severity, "info"),
        )
        if not sent:
            raise DeliveryError("apprise could not deliver the notice; the reason is in relay.log")
        return "accepted"
