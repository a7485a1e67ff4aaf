"""Security headers. Invariant: every response has them, also those that uvicorn creates."""

from __future__ import annotations

from headrace.model.web import WebSettings

_ALWAYS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
    "cache-control": "no-store",
}


def headers(web: WebSettings) -> dict[str, str]:
    secure = {"strict-transport-security": "max-age=31536000"} if web.is_secure else {}
    return {**_ALWAYS, **secure}
