"""POST for notifiers: bounded in time and size, follows no redirects.

A slow, endless or misbehaving endpoint costs `DEADLINE_S` and `REPLY_BYTES`, never more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.connectors.connector import require_secret_reference
from headrace.errors import ConnectorError

TIMEOUT_S = 5.0  # to connect, and between two packets
DEADLINE_S = 10.0  # for the whole request
REPLY_BYTES = 16 * 1024
REPLY_CHARS = 500  # in the delivery log
RETRY_AFTER_S_MAX = 3_600.0
_TRY_AGAIN = (408, 425, 429)  # of 4xx; any 5xx too


def post_json(url: str, body: Mapping[str, Any]) -> str:
    return post(url, json.dumps(body).encode(), {"Content-Type": "application/json"})


def post(url: str, content: bytes, headers: Mapping[str, str]) -> str:
    """The reply, shortened. DeliveryError unless the status is 2xx."""
    import httpx2

    until = time.monotonic() + DEADLINE_S
    try:
        with httpx2.stream(
            "POST", url, content=content, headers=dict(headers), timeout=TIMEOUT_S
        ) as reply:
            text = _read(reply, until)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as exc:
        raise DeliveryError(f"invalid URL: {exc}", is_permanent=True) from exc
    except httpx2.HTTPError as exc:
        raise DeliveryError(f"{type(exc).__name__}: {exc}") from exc
    status = reply.status_code
    if 200 <= status < 300:
        return f"{status} {text}".strip()
    if 300 <= status < 400:
        to = reply.headers.get("location", "")
        raise DeliveryError(f"{status}: redirects are not followed ({to})", is_permanent=True)
    raise DeliveryError(
        f"{status} {reply.reason_phrase}: {text}".strip(": "),
        is_permanent=status < 500 and status not in _TRY_AGAIN,
        retry_after_s=retry_after(reply.headers.get("retry-after"), time.time()),
    )


def _read(reply: Any, until: float) -> str:
    """The beginning of the body. The rest is not read: the connection is closed instead."""
    body = b""
    for part in reply.iter_raw():
        body += part
        if len(body) >= REPLY_BYTES:
            break
        if time.monotonic() >= until:
            raise DeliveryError(f"no complete reply within {DEADLINE_S:g} s")
    return " ".join(body[:REPLY_BYTES].decode(errors="replace").split())[:REPLY_CHARS]


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
