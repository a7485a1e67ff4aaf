"""HTTP for notifiers: bounded in time and size, follows no redirects.

A slow, endless or misbehaving endpoint costs `DEADLINE_S` and `REPLY_BYTES`, never more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from headrace.alerts.notifiers.deadline import Deadline
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.connectors.connector import require_secret_reference
from headrace.errors import ConnectorError
from headrace.failures.redaction import redact
from headrace.secrets import resolved_values

TIMEOUT_S = 5.0  # to connect, and between two packets
DEADLINE_S = 10.0  # for the whole request
REPLY_BYTES = 16 * 1024
REPLY_CHARS = 500  # in the delivery log
RETRY_AFTER_S_MAX = 3_600.0
_TRY_AGAIN = (408, 425, 429)  # of 4xx; any 5xx too


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool  # the body is longer than the limit

    @property
    def text(self) -> str:
        """The beginning of the body, without secrets: half a secret at its end is one, too."""
        known = resolved_values()
        text = redact(self.body.decode(errors="replace"), known)
        if self.is_cut:  # URL-encoded, a secret is up to three times as long
            text = text[: -3 * max([1, *map(len, known)])]
        return " ".join(text.split())[:REPLY_CHARS]


def post_json(url: str, body: Mapping[str, Any]) -> str:
    return post(url, json.dumps(body).encode(), {"Content-Type": "application/json"})


def post(url: str, content: bytes, headers: Mapping[str, str]) -> str:
    """The reply, shortened. DeliveryError unless the status is 2xx."""
    reply = _exchange("POST", url, content, headers, REPLY_BYTES)
    return f"{reply.status} {reply.text}".strip()


def get(url: str, headers: Mapping[str, str] | None = None) -> str:
    reply = _exchange("GET", url, None, headers or {}, REPLY_BYTES)
    return f"{reply.status} {reply.text}".strip()


def get_json(url: str, headers: Mapping[str, str], bytes_max: int) -> Any:
    """DeliveryError if the reply is too long or is not JSON."""
    reply = _exchange("GET", url, None, headers, bytes_max)
    try:
        if reply.is_cut:
            raise ValueError
        return json.loads(reply.body)
    except (ValueError, RecursionError) as exc:
        raise DeliveryError(f"{reply.status}: the reply is not JSON: {reply.text}") from exc


def _exchange(
    method: str, url: str, content: bytes | None, headers: Mapping[str, str], bytes_max: int
) -> _Reply:
    import httpx2

    deadline = Deadline(DEADLINE_S)

    def trace(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            deadline.watch(info["return_value"].get_extra_info("socket"))

    asked = {"Accept-Encoding": "identity", **headers}
    try:
        with deadline, httpx2.Client(timeout=TIMEOUT_S) as client:
            request = client.stream(
                method, url, content=content, headers=asked, extensions={"trace": trace}
            )
            with request as answer:
                body, is_cut = _read(answer, bytes_max)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as exc:
        # The text of the error may contain a part of the URL, which may be a secret.
        raise DeliveryError(f"invalid URL ({type(exc).__name__})", is_permanent=True) from exc
    except httpx2.HTTPError as exc:
        if deadline.is_over:
            raise DeliveryError(f"no complete reply within {DEADLINE_S:g} s") from exc
        raise DeliveryError(f"{type(exc).__name__}: {exc}") from exc
    if deadline.is_over:
        raise DeliveryError(f"no complete reply within {DEADLINE_S:g} s")
    reply = _Reply(answer.status_code, answer.reason_phrase, answer.headers, body, is_cut)
    _require_success(reply)
    return reply


def _read(answer: Any, bytes_max: int) -> tuple[bytes, bool]:
    """The rest of a long body is not read: the connection is closed instead."""
    body = b""
    for part in answer.iter_raw(chunk_size=REPLY_BYTES):
        body += part
        if len(body) > bytes_max:
            return body[:bytes_max], True
    return body, False


def _require_success(reply: _Reply) -> None:
    if 200 <= reply.status < 300:
        return
    if 300 <= reply.status < 400:
        # Another host must not get the notice and its secrets. The path may repeat them.
        host = urlsplit(reply.headers.get("location", "")).hostname
        to = f" (to {host})" if host else ""
        raise DeliveryError(
            f"{reply.status}: redirects are not followed{to}; set the new URL in the channel",
            is_permanent=True,
        )
    reason = redact(reply.reason, resolved_values())[:100]
    raise DeliveryError(
        f"{reply.status} {reason}: {reply.text}".strip(": "),
        is_permanent=reply.status < 500 and reply.status not in _TRY_AGAIN,
        retry_after_s=retry_after(reply.headers.get("retry-after"), time.time()),
    )


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds, from a number or a date. Pure."""
    if not value:
        return None
    try:
        wait_s = float(value)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(value).timestamp() - now
        except ValueError:
            return None
    return min(max(wait_s, 0.0), RETRY_AFTER_S_MAX) if wait_s == wait_s else None


def require_url(name: str, url: object, *, is_secret: bool = False) -> None:
    """A secret URL, such as a Slack webhook, must be a reference unless it is on this machine."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://", "${")):
        raise ConnectorError(
            f"Invalid {name}: {url!r}. It must be a URL that starts with https:// or http://.",
            slug="bad-option",
        )
    if is_secret and not url.startswith(("http://127.0.0.1", "http://localhost", "http://[::1]")):
        require_secret_reference(name, url)
