"""Any HTTP endpoint: the notice as JSON, signed if a secret is set."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from dataclasses import dataclass

from headrace import secrets
from headrace.alerts.notifiers import http
from headrace.connectors.connector import require_secret_reference
from headrace.model.notices import Notice


@dataclass(frozen=True, slots=True)
class Webhook:
    url: str
    secret: str | None = None

    def __post_init__(self) -> None:
        http.require_url("url", self.url)
        require_secret_reference("secret", self.secret)

    def send(self, notice: Notice) -> str:
        body = json.dumps(notice.to_json()).encode()
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key(notice),
        }
        if self.secret:
            headers |= signature(secrets.resolve(self.secret), body, int(time.time()))
        return http.post(secrets.resolve(self.url), body, headers)


def signature(secret: str, body: bytes, at: int) -> dict[str, str]:
    """HMAC-SHA256 of `TIME.BODY`: the receiver checks it, and that the time is recent. Pure."""
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Headrace-Time": str(at), "Headrace-Signature": f"sha256={signed}"}


def idempotency_key(notice: Notice) -> str:
    text = f"{notice.kind}\n{notice.key}\n{notice.opened_at}\n{notice.at}"
    return hashlib.sha256(text.encode()).hexdigest()[:40]
