"""Serves requests from the command line and the page, and writes the replies.

Invariants: each request is served once, even if its reply cannot be written; a bad request does not
block others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from headrace.errors import ControlError, Error
from headrace.model.requests import Reply, Request
from headrace.model.state_paths import StatePaths
from headrace.state import requests
from headrace.supervisor.store_writer import StoreWriter

logger = logging.getLogger(__name__)

UNANSWERED_MAX = 200  # replies kept in memory while the disk is full


class Inbox:
    def __init__(
        self,
        places: StatePaths,
        history: StoreWriter,
        change: Callable[[Request, float], str],
        guarded: Callable[[str, float], AbstractContextManager[None]],
    ) -> None:
        self._places = places
        self._history = history
        self._change = change
        self._guarded = guarded  # catches exceptions of a step
        self._unanswered: dict[str, Reply] = {}

    def serve_waiting(self, now: float) -> None:
        for reply in list(self._unanswered.values()):
            self._write_reply(reply)
        for request in requests.waiting(self._places):
            if request.id not in self._unanswered:  # already served, but its file still exists
                self._serve(request, now)

    def _serve(self, request: Request, now: float) -> None:
        reply = _failure_reply(request, "See the supervisor's log.")
        with self._guarded(f"request {request.id}", now):
            reply = self._apply_change(request, now)
        self._write_reply(reply)
        text = reply.text
        logger.info("%s requested %s %s: %s", request.by, request.what, request.pipeline, text)
        self._history.record_request(request, text, now)

    def _apply_change(self, request: Request, now: float) -> Reply:
        try:
            return Reply(request.id, ok=True, text=self._change(request, now))
        except Error as exc:
            return Reply(request.id, ok=False, text=exc.what, error=exc.as_dict())
        except OSError as exc:
            logger.error("request %s failed: %s", request.id, exc)
            return _failure_reply(request, str(exc))

    def _write_reply(self, reply: Reply) -> None:
        self._unanswered.pop(reply.id, None)
        try:
            requests.answer(self._places, reply)
        except UnicodeEncodeError:  # it quotes invalid Unicode
            self._write_reply(Reply(reply.id, reply.ok, ascii(reply.text)))
        except OSError as exc:
            if len(self._unanswered) < UNANSWERED_MAX:
                self._unanswered[reply.id] = reply
            logger.error("the reply to %s could not be written: %s", reply.id, exc)


def _failure_reply(request: Request, why: str) -> Reply:
    error = ControlError(
        f"The supervisor could not complete the request ({request.what}).",
        why=why,
        fix="Run `headrace status`, then try again.",
        slug="not-served",
    )
    return Reply(request.id, ok=False, text=error.what, error=error.as_dict())
