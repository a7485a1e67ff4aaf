"""Actions on alerts: acknowledge, silence, end a silence, test a channel.

All but the test are requests to the supervisor, as in `actions.py`, so they are in the audit log.
A test runs in a child process; a service that hangs delays only its own request.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool

from headrace.durations import parse_duration
from headrace.errors import ConfigError, Error
from headrace.model.numbers import real
from headrace.model.requests import Action
from headrace.project import alerts, channel_test, control
from headrace.web.actions import leave
from headrace.web.alert_views import number
from headrace.web.visit import Visit

logger = logging.getLogger(__name__)

REASON_MAX = 500
LENGTH_CHARS_MAX = 100
TESTS_MAX = 2  # at once


def acknowledge(visit: Visit) -> dict[str, Any]:
    work = visit.site.workspace()
    alert, _ = alerts.show(work, number(visit, "alert"))
    asked = control.request(work, Action.ACKNOWLEDGE, alert.pipeline)
    return leave(visit, replace(asked, alert=alert.id))


def silence(visit: Visit) -> dict[str, Any]:
    reason = (visit.text("reason", REASON_MAX) or "").strip()
    if not reason:
        raise _bad(
            "The silence has no reason.",
            "Others must be able to see why they get no notices.",
            'Send, for example, "reason": "maintenance of the database".',
        )
    if all(visit.body.get(name) is None for name in ("pipeline", "query", "rule")):
        raise _bad(
            "The silence names no alerts.",
            "Without a name, it would silence all pipelines.",
            'Send a pipeline, query or rule. To silence everything: "pipeline": "*".',
        )
    body = {
        "pipeline": _pattern(visit, "pipeline", "*"),
        "query": _pattern(visit, "query", None),
        "rule": _pattern(visit, "rule", "*"),
        "until": _until(visit),
        "reason": reason,
    }
    asked = control.request(visit.site.workspace(), Action.SILENCE)
    return leave(visit, replace(asked, silence=body))


def end_silence(visit: Visit) -> dict[str, Any]:
    asked = control.request(visit.site.workspace(), Action.END_SILENCE)
    return leave(visit, replace(asked, silence={"id": number(visit, "silence")}))


def _pattern(visit: Visit, name: str, default: str | None) -> str | None:
    given = visit.text(name)
    if given is None:
        return default
    if "[" in given and "]" not in given[given.rindex("[") + 2 :]:
        raise _bad(
            f"Invalid pattern for {name}: {given!r}.",
            "A bracket is not closed.",
            "Use * for any text, ? for any character, and [abc] for one of these characters.",
        )
    return given


def _until(visit: Visit) -> float:
    """From `for`, a duration, or `until`, in seconds since 1970."""
    given, length = visit.body.get("until"), visit.body.get("for")
    if (given is None) == (length is None):
        raise _bad(
            "The silence has no end." if given is None else "The silence has two ends.",
            "One of `for` (a duration) and `until` (seconds since 1970) is required.",
            'Send, for example, "for": "2 hours".',
        )
    if length is None:
        until = real(given)
        if until is None:
            why = "It must be a number of seconds since 1970."
            raise _bad(f"Invalid end: {str(given)[:100]!r}.", why, None)
        return until
    if not isinstance(length, str):
        length = real(length)
    elif len(length) > LENGTH_CHARS_MAX:
        length = f"{length[:LENGTH_CHARS_MAX]}…"
    return visit.now + parse_duration(length)


def _bad(what: str, why: str, fix: str | None) -> ConfigError:
    return ConfigError(what, why=why, fix=fix, slug="bad-silence")


async def test_channel(visit: Visit) -> dict[str, Any]:
    """Waits in a thread that no other request needs."""
    settings, name, feed = visit.site.settings, visit.path["channel"], visit.feed
    alerts.check_channel(settings, name)
    feed.test_limit.check(visit.user.by, "tests")
    if feed.tests >= TESTS_MAX:
        raise Error(
            f"{TESTS_MAX} channels are already being tested.",
            fix="Try again in a moment.",
            slug="too-many",
        )
    logger.info("%s tests the channel %s", visit.user.by, name)
    feed.tests += 1
    try:
        replies = await run_in_threadpool(partial(channel_test.run, settings, name))
    finally:
        feed.tests -= 1
    return visit.redacted({"channel": name, "replies": replies})
