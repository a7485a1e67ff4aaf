"""Keeps the server of `[metrics.prometheus]` in line with the settings.

An address that is in use is reported and tried again; pipelines do not notice.
"""

from __future__ import annotations

import errno
import socket
import time

from headrace import secrets
from headrace.errors import Error
from headrace.metrics import exporters, prometheus_text
from headrace.metrics.exporters import PrometheusSettings
from headrace.project.workspace import Workspace
from headrace.relay.export_record import ExportRecord
from headrace.relay.metric_facts import MetricSource
from headrace.relay.prometheus_server import PATH, Access, PrometheusServer

NAME = "prometheus"


class PrometheusExport:
    """Owns the server, while the settings ask for one."""

    def __init__(self, source: MetricSource) -> None:
        self._source = source
        self._work: Workspace | None = None
        self._server: PrometheusServer | None = None
        self._settings: PrometheusSettings | None = None  # of the server
        self._token: str | None = None
        self._record: ExportRecord | None = None

    def tick(self, work: Workspace) -> list[str]:
        """The problem, if any. While the settings are invalid, the last valid ones apply."""
        self._work = work
        problem = None
        try:
            self._apply(exporters.prometheus(work.settings))
        except Error as exc:
            problem = f"{exc.what} {exc.why or ''}".rstrip()
        except OSError as exc:
            problem = _describe(exc, work)
        if self._server is None and problem is None:
            return []
        self._record = self._record or ExportRecord(work.places, NAME)
        sent, dropped = self._server.counts() if self._server else (0, 0)
        to = f"http://{self._settings.address}{PATH}" if self._settings else ""
        now = time.time()
        found = self._record.note(now, to, sent=sent, dropped=dropped, problem=problem)
        return [*found, *self._source.problems]

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = self._settings = None

    def _apply(self, asked: PrometheusSettings | None) -> None:
        token = secrets.resolve(asked.token) if asked and asked.token else None
        if (asked, token) == (self._settings, self._token):
            return
        self.close()
        if asked is not None:
            own = {"localhost", socket.gethostname().lower()}
            access = Access(frozenset({*own, *(name.lower() for name in asked.hosts)}), token)
            self._server = PrometheusServer(asked.address, access, self._render)
        self._settings, self._token = asked, token

    def _render(self, accept: str) -> tuple[bytes, str]:
        """Called by the server's threads."""
        assert self._work is not None  # noqa: S101 - set before the server starts
        return prometheus_text.page(self._source.families(self._work), accept)


def _describe(exc: OSError, work: Workspace) -> str:
    listen = work.settings.metrics.get(NAME, {}).get("listen", PrometheusSettings().listen)
    if exc.errno == errno.EADDRINUSE:
        return f"{listen} is in use by another program; trying again"
    return f"{listen} cannot be used: {exc.strerror or exc}; trying again"
