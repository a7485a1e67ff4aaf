"""Where requests are taken in: each is served once and answered, whatever becomes of it.

Owned by `loop.py`, which hands in how a request changes things. Invariants: one bad request stops
no other; one that was served is never served again, also if its answer cannot be written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from headrace.errors import ControlError, Error
from headrace.model.places import Places
from headrace.model.requests import Answer, Request
from headrace.state import requests
from headrace.supervisor.history import History

logger = logging.getLogger(__name__)

UNANSWERED_MAX = 200  # kept until the disk has room again


class Desk:
    """Knows which answers are still to be written."""

    def __init__(
        self,
        places: Places,
        history: History,
        change: Callable[[Request, float], str],
        guarded: Callable[[str, float], AbstractContextManager[None]],
    ) -> None:
        self._places = places
        self._history = history
        self._change = change
        self._guarded = guarded  # the loop's border
        self._unanswered: dict[str, Answer] = {}

    def serve_waiting(self, now: float) -> None:
        for answer in list(self._unanswered.values()):
            self._answer(answer)
        for request in requests.waiting(self._places):
            if request.id not in self._unanswered:  # else served, and its file would not go
                self._serve(request, now)

    def _serve(self, request: Request, now: float) -> None:
        answer = _not_served(request, "See the supervisor's log.")
        with self._guarded(f"request {request.id}", now):
            answer = self._changed(request, now)
        self._answer(answer)
        text = answer.text
        logger.info("%s asked to %s %s: %s", request.by, request.what, request.pipeline, text)
        self._history.requested(request, text, now)

    def _changed(self, request: Request, now: float) -> Answer:
        try:
            return Answer(request.id, ok=True, text=self._change(request, now))
        except Error as exc:
            return Answer(request.id, ok=False, text=exc.what, error=exc.as_dict())
        except OSError as exc:
            logger.error("request %s could not be served: %s", request.id, exc)
            return _not_served(request, str(exc))

    def _answer(self, answer: Answer) -> None:
        self._unanswered.pop(answer.id, None)
        try:
            requests.answer(self._places, answer)
        except UnicodeEncodeError:  # it quotes what is no text
            self._answer(Answer(answer.id, answer.ok, ascii(answer.text)))
        except OSError as exc:
            if len(self._unanswered) < UNANSWERED_MAX:
                self._unanswered[answer.id] = answer
            logger.error("the answer to %s could not be written: %s", answer.id, exc)


def _not_served(request: Request, why: str) -> Answer:
    error = ControlError(
        f"The supervisor could not serve this request ({request.what}).",
        why=why,
        fix="headrace status shows how things are; then ask again",
        slug="not-served",
    )
    return Answer(request.id, ok=False, text=error.what, error=error.as_dict())
