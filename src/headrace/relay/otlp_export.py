"""Sends metrics to an OpenTelemetry collector over OTLP/HTTP (`[metrics.otlp]`).

Counters are cumulative, so a request that fails loses only its moment: the next one has the same
totals. Bounded in time and in what it reads of a reply; follows no redirects.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace import __version__, secrets
from headrace.errors import Error
from headrace.metrics import exporters, otlp_request
from headrace.metrics.exporters import OtlpSettings
from headrace.project.workspace import Workspace
from headrace.relay.export_record import ExportRecord
from headrace.relay.metric_facts import MetricSource
from headrace.state.installation_id import home

if TYPE_CHECKING:
    import httpx2

NAME = "otlp"
TIMEOUT_S = 5.0  # to connect, and between two packets
DEADLINE_S = 10.0  # for the whole request
REPLY_BYTES_MAX = 16 * 1024
_FIXED = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}


class OtlpExport:
    """Owns the HTTP client: a new one for each request would take longer than the request."""

    def __init__(self, source: MetricSource) -> None:
        self._source = source
        self._due_at = 0.0
        self._settings: OtlpSettings | None = None
        self._record: ExportRecord | None = None
        self._client: httpx2.Client | None = None

    def tick(self, work: Workspace) -> list[str]:
        """Sends a request if one is due. Returns the problems."""
        sent = dropped = 0
        problem, to = None, ""
        try:
            asked = exporters.otlp(work.settings)
            now = time.monotonic()
            if asked is None or (asked == self._settings and now < self._due_at):
                return []
            self._settings, self._due_at = asked, now + exporters.parse_every(asked.every)
            to = asked.endpoint  # a reference stays one here
            sent, dropped, problem = self._send(work, asked)
        except Error as exc:
            problem = f"{exc.what} {exc.why or ''}".rstrip()
        self._record = self._record or ExportRecord(work.places, NAME)
        return self._record.note(time.time(), to, sent=sent, dropped=dropped, problem=problem)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _send(self, work: Workspace, asked: OtlpSettings) -> tuple[int, int, str | None]:
        """How many data points were sent and dropped, and why."""
        resource = {
            "service.name": "headrace",
            "service.namespace": work.settings.name,
            "service.instance.id": home(work.places),
            "service.version": __version__,
            "deployment.environment.name": work.profile,
        }
        families = self._source.families(work)
        body, points = otlp_request.build(families, resource, __version__, time.time())
        headers = {name: secrets.resolve(value) for name, value in asked.headers.items()}
        url, content = secrets.resolve(asked.endpoint), gzip.compress(body)
        problem, reply = self._post(url, content, headers)
        if problem is not None:
            return 0, points, problem
        refused, why = otlp_request.rejected(reply)
        refused = min(refused, points)
        text = f"the receiver refused {refused} data points: {why}" if refused else None
        return points - refused, refused, text

    def _post(
        self, url: str, content: bytes, headers: Mapping[str, str]
    ) -> tuple[str | None, bytes]:
        """The problem, or None and the beginning of the reply."""
        import httpx2

        self._client = self._client or httpx2.Client(timeout=TIMEOUT_S)
        until = time.monotonic() + DEADLINE_S
        body, given = b"", {**headers, **_FIXED}
        try:
            with self._client.stream("POST", url, content=content, headers=given) as reply:
                for part in reply.iter_raw():
                    body += part
                    if len(body) >= REPLY_BYTES_MAX:
                        break
                    if time.monotonic() >= until:
                        return f"no complete reply within {DEADLINE_S:g} s", b""
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            return f"{type(exc).__name__}: {exc}", b""
        if not 200 <= reply.status_code < 300:
            text = " ".join(body[:200].decode(errors="replace").split())
            return f"{reply.status_code} {reply.reason_phrase}: {text}".strip(": "), b""
        return None, body[:REPLY_BYTES_MAX]
