"""Email by SMTP."""

from __future__ import annotations

import hashlib
import smtplib
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate

from headrace import secrets
from headrace.alerts import message_text
from headrace.alerts.notifiers.deadline import Deadline
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.alerts.notifiers.webhook import idempotency_key
from headrace.connectors.connector import require_choice, require_secret_reference
from headrace.errors import ConnectorError
from headrace.model.notices import Notice

TIMEOUT_S = 5.0  # to connect, and between two packets
DEADLINE_S = 20.0  # for the whole conversation
SUBJECT_CHARS = 200
PORTS = {"starttls": 587, "tls": 465, "none": 25}


@dataclass(frozen=True, slots=True)
class Mail:
    smtp: str  # HOST or HOST:PORT
    from_: str
    to: Sequence[str]
    tls: str = "starttls"
    user: str | None = None
    password: str | None = None

    def __post_init__(self) -> None:
        require_choice("tls", self.tls, tuple(PORTS))
        require_secret_reference("password", self.password)
        if (self.user is None) != (self.password is None):
            raise ConnectorError(
                "user and password must be set together.",
                fix="Set both, or neither if the server needs no login.",
                slug="bad-option",
            )
        _host_and_port(self.smtp, self.tls)
        addresses = [self.from_, *self.to] if isinstance(self.to, list | tuple) else []
        if len(addresses) < 2 or not all(isinstance(a, str) and "@" in a for a in addresses):
            raise ConnectorError(
                f"Invalid addresses: from {self.from_!r}, to {self.to!r}.",
                fix='Write from = "headrace@example.org" and to = ["oncall@example.org"].',
                slug="bad-option",
            )

    def send(self, notice: Notice) -> str:
        deadline = Deadline(DEADLINE_S)
        try:
            with deadline, self._server(deadline) as server:
                refused = server.send_message(build_message(notice, self.from_, self.to))
        except smtplib.SMTPRecipientsRefused as exc:
            codes = [code for code, _ in exc.recipients.values()]
            raise DeliveryError(_words(exc.recipients), is_permanent=min(codes) >= 500) from exc
        except smtplib.SMTPResponseException as exc:
            text = exc.smtp_error
            words = text.decode(errors="replace") if isinstance(text, bytes) else text
            raise DeliveryError(
                f"{exc.smtp_code} {words}", is_permanent=exc.smtp_code >= 500
            ) from exc
        except (OSError, smtplib.SMTPException) as exc:
            if deadline.is_over:
                text = f"the server did not finish within {DEADLINE_S:g} s"
                raise DeliveryError(text) from exc
            raise DeliveryError(f"{type(exc).__name__}: {exc}") from exc
        return f"accepted, except for {_words(refused)}" if refused else "accepted"

    @contextmanager
    def _server(self, deadline: Deadline) -> Iterator[smtplib.SMTP]:
        host, port = _host_and_port(self.smtp, self.tls)
        context = ssl.create_default_context()
        server: smtplib.SMTP
        if self.tls == "tls":
            server = _WatchedTls(deadline, host, port, context)
        else:
            server = _Watched(deadline, host, port)
        with server:
            if self.tls == "starttls":
                server.starttls(context=context)
            if self.user is not None and self.password is not None:
                server.login(secrets.resolve(self.user), secrets.resolve(self.password))
            yield server


class _Watched(smtplib.SMTP):
    def __init__(self, deadline: Deadline, host: str, port: int) -> None:
        self._deadline = deadline
        super().__init__(host, port, timeout=TIMEOUT_S)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        sock: socket.socket = super()._get_socket(host, port, timeout)  # type: ignore[misc]
        self._deadline.watch(sock)
        return sock


class _WatchedTls(smtplib.SMTP_SSL):
    def __init__(self, deadline: Deadline, host: str, port: int, context: ssl.SSLContext) -> None:
        self._deadline = deadline
        super().__init__(host, port, timeout=TIMEOUT_S, context=context)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        sock: socket.socket = super()._get_socket(host, port, timeout)  # type: ignore[misc]
        self._deadline.watch(sock)
        return sock


def build_message(notice: Notice, from_: str, to: Sequence[str]) -> EmailMessage:
    """All messages about an alert are in one thread. Line breaks in a title cannot add headers.
    Pure, except for its date."""
    message = EmailMessage()
    message["From"], message["To"] = from_, ", ".join(to)
    message["Subject"] = " ".join(message_text.subject(notice).split())[:SUBJECT_CHARS]
    message["Date"] = formatdate(usegmt=True)
    message["Message-ID"] = f"<{idempotency_key(notice)}@headrace>"
    thread = hashlib.sha256(f"{notice.key}\n{notice.opened_at}".encode()).hexdigest()[:40]
    message["References"] = f"<{thread}@headrace>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(
        "\n".join([message_text.subject(notice), "", *message_text.lines(notice)]) + "\n"
    )
    return message


def _host_and_port(smtp: str, tls: str) -> tuple[str, int]:
    host, _, port = smtp.rpartition(":") if ":" in smtp else (smtp, "", str(PORTS[tls]))
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ConnectorError(
            f"Invalid smtp: {smtp!r}.",
            fix='Write smtp = "smtp.example.org:587".',
            slug="bad-option",
        )
    return host, int(port)


def _words(refused: dict[str, tuple[int, bytes]]) -> str:
    return "; ".join(
        f"{address}: {code} {text.decode(errors='replace')}"
        for address, (code, text) in refused.items()
    )
