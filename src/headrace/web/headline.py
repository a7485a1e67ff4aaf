"""The first sentence of the page: is everything healthy, and if not, what is wrong. Pure.

Invariant: the text begins with "Healthy", on green, only if every running pipeline keeps up, no
freshness target is missed, and the alerts could be read and none is open. An alert that a
person has acknowledged or silenced is open, but not urgent: it alone never makes the level "bad".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.status import State

NEEDS_ATTENTION = 3  # from this severity of a pipeline on (health/summary.py)
SERIOUS = ("critical", "error")

Row = Mapping[str, Any]  # of a pipeline in the overview


@dataclass(frozen=True, slots=True)
class Alert:
    """An open alert."""

    severity: str
    is_acknowledged: bool = False
    is_silenced: bool = False

    @property
    def is_handled(self) -> bool:
        return self.is_acknowledged or self.is_silenced


def headline(pipelines: Sequence[Row], alerts: Sequence[Alert] | None) -> dict[str, Any]:
    """`alerts`: those that are open. None: it is unknown which are open."""
    running = [row for row in pipelines if row["severity"] >= 0]
    bad = [row["name"] for row in running if row["severity"] >= NEEDS_ATTENTION]
    serious = sum(one.severity in SERIOUS and not one.is_handled for one in alerts or ())
    acknowledged = sum(one.is_acknowledged for one in alerts or ())
    silenced = sum(one.is_silenced and not one.is_acknowledged for one in alerts or ())
    broken = sum(bool(query["broken_promise"]) for row in running for query in row["queries"])
    restarts = sum(row["restarts_today"] for row in pipelines)
    problems = []
    if bad:
        verb = "needs" if len(bad) == 1 else "need"
        problems.append(
            f"{len(bad)} of {_count(len(running), 'pipeline')} {verb} attention: {', '.join(bad)}"
        )
    if alerts:
        problems.append(_open_alerts(alerts, acknowledged, silenced))
    if broken:
        problems.append(_count(broken, "missed freshness target"))
    problems += _state_words(running)
    if alerts is None:
        is_first = running and not problems
        problems.append(f"{'Open' if is_first else 'open'} alerts are unknown")
    level = "bad" if bad or serious else "busy" if problems else "good" if running else "off"
    text = _sentence(pipelines, running, problems)
    if restarts:
        text += f" {_count(restarts, 'restart')} in the last 24 h."
    return {
        "level": level,
        "text": text,
        "problems": len(bad) + serious,
        "alerts": None if alerts is None else len(alerts),
        "acknowledged": acknowledged,
        "silenced": silenced,
        "broken_promises": broken,
        "restarts": restarts,
    }


def _open_alerts(alerts: Sequence[Alert], acknowledged: int, silenced: int) -> str:
    counts = Counter(one.severity for one in alerts if one.severity in SERIOUS)
    serious = ", ".join(f"{counts[one]} {one}" for one in SERIOUS if counts[one])
    serious = alerts[0].severity if len(alerts) == counts.total() == 1 else serious
    handled = [
        f"{_share(count, len(alerts))}{doing}"
        for count, doing in ((acknowledged, "acknowledged"), (silenced, "silenced"))
        if count
    ]
    first = f"{_count(len(alerts), 'open alert')}{f' ({serious})' if serious else ''}"
    return ", ".join([first, *handled])


def _share(count: int, total: int) -> str:
    return f"{count} " if count < total else "all " if total > 1 else ""


def _state_words(running: Sequence[Row]) -> list[str]:
    words = {
        State.CATCHING_UP: "catching up",
        State.STARTING: "starting",
        State.STOPPING: "stopping",
    }
    found = []
    for state, doing in words.items():
        if names := [row["name"] for row in running if row["state"] == state]:
            found.append(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {doing}")
    return found


def _sentence(pipelines: Sequence[Row], running: Sequence[Row], problems: Sequence[str]) -> str:
    if not running:
        first = "No pipeline is running" if pipelines else "Nothing is deployed"
        return f"{'; '.join([first, *problems])}."
    names = running[0]["name"] if len(running) == 1 else f"all {len(running)} pipelines"
    fine = f"{names} {'is' if len(running) == 1 else 'are'} running and keeping up"
    if not problems:
        return f"Healthy: {fine}."
    is_fine = all(row["state"] in (State.RUNNING, State.FINISHED) for row in running)
    return f"{'; '.join([*problems, fine] if is_fine else problems)}."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
