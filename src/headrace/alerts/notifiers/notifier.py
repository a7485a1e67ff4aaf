"""What a notifier does, and how it reports that it could not.

A notifier is a frozen dataclass: its fields are the settings of `[notify.NAME]`. To add one: a
module here, a line in `alerts/channels.KINDS`, a test of the wire format, a heading in
docs/guides/alerts.md. Other packages use the entry point group `headrace.notifiers`.
"""

from __future__ import annotations

from typing import Protocol

from headrace.model.notices import Notice


class Notifier(Protocol):
    def send(self, notice: Notice) -> str:
        """Sends one notice and returns the reply of the service, for the delivery log.

        Blocks for at most a few seconds. May be called again with the same notice: the service
        must be able to recognise it by its key. Raises DeliveryError."""


class DeliveryError(Exception):
    """`is_permanent`: the service rejects this notice, so sending it again cannot help."""

    def __init__(
        self, text: str, *, is_permanent: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        self.is_permanent = is_permanent
        self.retry_after_s = retry_after_s
