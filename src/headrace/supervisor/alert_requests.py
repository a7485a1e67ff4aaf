"""Serves requests about alerts: acknowledge, silence, end a silence.

Invariant: a request that was written by hand, or by another version, is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from headrace.errors import ControlError
from headrace.model import times
from headrace.model.numbers import WHOLE_MAX, real
from headrace.model.requests import Action, Request
from headrace.store import alerts, db, silences
from headrace.store.silences import Silence
from headrace.supervisor.store_writer import StoreWriter

T = TypeVar("T")

TEXT_CHARS_MAX = 1_000
SILENCE_S_MAX = 366 * 86_400.0
SILENCES_MAX = silences.LIMIT_MAX


def serve(request: Request, history: StoreWriter, at: float, now: float) -> str:
    """The text of the reply. `at` is the time of day, `now` that of the loop."""

    def use(write: Callable[[db.Store], T]) -> T:
        return _use(history, write, now)

    if request.what == Action.ACKNOWLEDGE:
        return use(lambda conn: _acknowledge(conn, request, at))
    if request.what == Action.SILENCE:
        silence = _read_silence(request, at)
        return use(lambda conn: _add(conn, silence, at))
    number = _number(_body(request).get("id"), "silence")
    return use(lambda conn: _end(conn, number, at))


def _use(history: StoreWriter, write: Callable[[db.Store], T], now: float) -> T:
    done, problem = history.use_alerts(write, now)
    if done is None:
        raise ControlError(
            "alerts.db could not be written.",
            why=problem,
            fix="Fix the cause, then try again.",
            slug="not-served",
        )
    return done


def _acknowledge(conn: db.Store, request: Request, at: float) -> str:
    number = _number(request.alert, "alert")
    if alerts.acknowledge(conn, number, request.by, at):
        return f"alert {number} is acknowledged"
    alert = alerts.by_id(conn, number)
    if alert is None:
        raise ControlError(
            f"There is no alert {number}.",
            fix="List alerts with their numbers: headrace alerts list --all",
            slug="unknown-alert",
        )
    if alert.resolved_at is not None:
        raise ControlError(
            f"Alert {number} is already resolved.",
            why=f"It was resolved at {times.clock(alert.resolved_at)}. "
            "Only open alerts can be acknowledged.",
            fix="List open alerts: headrace alerts list",
            slug="alert-resolved",
        )
    since = times.clock(alert.acknowledged_at)
    return f"alert {number} was already acknowledged by {alert.acknowledged_by} at {since}"


def _read_silence(request: Request, at: float) -> Silence:
    body = _body(request)
    until = real(body.get("until"))
    if until is None:
        raise _bad("a silence without an end")
    if until <= at:
        raise ControlError(
            f"The silence would have ended already, at {times.clock(until)}.",
            fix="Choose an end in the future, for example --for 2h.",
            slug="bad-silence",
        )
    if until > at + SILENCE_S_MAX:
        raise ControlError(
            "A silence can last a year at most.",
            why="A silence that is forgotten hides problems.",
            fix="Choose an earlier end. To never send some alerts, set severity, pipelines or "
            "rules in the channel.",
            slug="bad-silence",
        )
    pipeline, rule, reason = (_text(body, name) for name in ("pipeline", "rule", "reason"))
    if not reason.strip():
        raise ControlError(
            "The silence has no reason.",
            why="Others must be able to see why they get no notices.",
            fix='Add a reason, for example --reason "maintenance of the database".',
            slug="bad-silence",
        )
    query = _text(body, "query") if body.get("query") is not None else None
    return Silence(0, pipeline, query, rule, reason, request.by, at, until)


def _body(request: Request) -> Mapping[str, Any]:
    if not isinstance(request.silence, Mapping):
        raise _bad("no silence")
    return request.silence


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
        raise _bad(f"a silence whose {name} is {value!r:.80}")
    return value


def _add(conn: db.Store, silence: Silence, at: float) -> str:
    if len(silences.list_silences(conn, at)) >= SILENCES_MAX:
        raise ControlError(
            f"There are already {SILENCES_MAX:,} silences.",
            fix="End one: headrace alerts unsilence ID",
            slug="bad-silence",
        )
    number = silences.add(conn, silence)
    return f"silence {number} is active until {times.clock(silence.until)}"


def _end(conn: db.Store, number: int, at: float) -> str:
    if silences.end(conn, number, at):
        return f"silence {number} has ended"
    known = silences.by_id(conn, number)
    if known is None:
        raise ControlError(
            f"There is no silence {number}.",
            fix="List silences with their numbers: headrace alerts silences --all",
            slug="unknown-silence",
        )
    ended_at = known.until if known.ended_at is None else known.ended_at
    return f"silence {number} had already ended at {times.clock(ended_at)}"


def _number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= WHOLE_MAX:
        raise _bad(f"{name} {value!r:.80}, which is not a number of one")
    return value


def _bad(problem: str) -> ControlError:
    return ControlError(f"The request contains {problem}.", slug="bad-request")
