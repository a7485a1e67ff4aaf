"""What a notifier does, and how it reports that it could not.

A notifier is a frozen dataclass: its fields are the settings of `[notify.NAME]`. To add one: a
module here, a line in `alerts/channels.KINDS`, a test of the wire format, a heading in
docs/guides/alerts.md. Other packages use the entry point group `headrace.notifiers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.model.notices import Notice


class Notifier(Protocol):
    def send(self, notice: Notice) -> str:
        """Sends one notice and returns the reply of the service, for the delivery log.

        Blocks for at most a few seconds. May be called again with the same notice: the service
        must be able to recognise it by its key. Raises DeliveryError."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    by: str
    at: float


@runtime_checkable
class ReportsAcknowledgements(Protocol):
    """A notifier whose service can be asked whether a person has acknowledged an alert there."""

    @property
    def has_api(self) -> bool:
        """Whether its settings allow to ask."""

    def find_acknowledgement(self, key: str) -> Acknowledgement | None:
        """The last one of the notices with this key. Raises DeliveryError."""


class DeliveryError(Exception):
    """`is_permanent`: the service rejects this notice, so sending it again cannot help."""

    def __init__(
        self, text: str, *, is_permanent: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        self.is_permanent = is_permanent
        self.retry_after_s = retry_after_s
