"""Makes the lines that customers and clusters log in one second. Pure.

Everything follows from the seed and the number of the second, so a resumed demo continues in the
middle of an overload or a silence. Invariant: heartbeats are never late, doubled or damaged, and a
damaged line is never a valid log.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

CUSTOMERS = 20  # as in project/customers.csv
CLUSTERS = tuple(range(1, 13))
BEAT_S = 2  # a cluster sends a heartbeat every two seconds; half of them in each second

OVERLOADED = 4  # the cluster that is overloaded at times
OVERLOAD_FIRST_S, OVERLOAD_EVERY_S, OVERLOAD_S = 20, 60, 15
SILENT = 9  # the cluster that falls silent, long enough to be noticed after a slow start
SILENT_FIRST_S, SILENT_S, BACK_S = 10, 150, 30

_MALFORMED = 0.007
_DOUBLED = 0.01
_LATE, _LATE_S = 0.03, (5.0, 120.0)
_VERY_LATE, _VERY_LATE_S = 0.001, 1800.0
_LEVELS = ("INFO", "WARN", "ERROR")
_KINDS = ("click", "login", "job")
_DAMAGES = ("truncated", "wrong type", "no JSON", "no UTF-8", "in a list")
_TEXTS = (b"connection reset by peer", b"<html>502 Bad Gateway</html>", b"at java.base/Thread.run")


@dataclass(frozen=True, slots=True)
class Second:
    """The lines of one second, and counts of what is in them."""

    lines: tuple[bytes, ...]
    malformed: int
    logins: int
    heartbeats: int
    overloads: int  # episodes that began

    def truth(self, file: str) -> dict[str, Any]:
        return {
            "file": file,
            "lines": len(self.lines),
            "malformed": self.malformed,
            "logins": self.logins,
            "heartbeats": self.heartbeats,
            "overloads": self.overloads,
        }


def is_overloaded(tick: int) -> bool:
    since = tick - OVERLOAD_FIRST_S
    return since >= 0 and since % OVERLOAD_EVERY_S < OVERLOAD_S


def is_silent(tick: int) -> bool:
    since = tick - SILENT_FIRST_S
    return since >= 0 and since % (SILENT_S + BACK_S) < SILENT_S


def second(tick: int, now: float, rate: int, seed: int) -> Second:
    """About `rate` lines; `now` is the end of the second."""
    dice = random.Random(f"{seed} {tick}")  # noqa: S311 - repeatable on purpose
    beats = [_beat(tick, cluster, now, dice) for cluster in _beating(tick)]
    lines = [_line(beat) for beat in beats]
    malformed = logins = 0
    for _ in range(max(0, rate - len(beats))):
        body = _body(now, dice)
        line, is_login = _line(body), body["metric"] == "login"
        if dice.random() < _MALFORMED:
            lines.append(_damage(body, dice.choice(_DAMAGES), dice))
            malformed += 1
            continue
        copies = 2 if dice.random() < _DOUBLED else 1
        lines += [line] * copies
        logins += is_login * copies
    dice.shuffle(lines)
    started = [b for b in beats if b["cluster_id"] == OVERLOADED and _is_first_overload(tick)]
    return Second(tuple(lines), malformed, logins, len(beats), len(started))


def _beating(tick: int) -> list[int]:
    now = [cluster for cluster in CLUSTERS if cluster % BEAT_S == tick % BEAT_S]
    return [cluster for cluster in now if cluster != SILENT or not is_silent(tick)]


def _is_first_overload(tick: int) -> bool:
    return is_overloaded(tick) and not is_overloaded(tick - BEAT_S)


def _beat(tick: int, cluster: int, now: float, dice: random.Random) -> dict[str, Any]:
    is_over = cluster == OVERLOADED and is_overloaded(tick)
    load = dice.uniform(99.1, 99.9) if is_over else dice.uniform(20.0, 80.0)
    return {
        "timestamp": _moment(now),
        "customer_id": cluster,
        "event_type": "clusterHeartbeat",
        "metric": "load",
        "level": "WARN" if is_over else "INFO",
        "cluster_id": cluster,
        "load": round(load, 1),
    }


def _body(now: float, dice: random.Random) -> dict[str, Any]:
    kind = dice.choices(_KINDS, (60, 15, 25))[0]
    body = {
        "timestamp": _moment(now - dice.random() - _lateness(dice)),
        "customer_id": dice.randint(1, CUSTOMERS),
        "event_type": "jobUpdate" if kind == "job" else "customerAction",
        "metric": dice.choice(("started", "succeeded", "failed")) if kind == "job" else kind,
        "level": dice.choices(_LEVELS, (90, 7, 3))[0],
    }
    return {**body, "cluster_id": dice.choice(CLUSTERS)} if kind == "job" else body


def _lateness(dice: random.Random) -> float:
    roll = dice.random()
    if roll < _VERY_LATE:
        return _VERY_LATE_S
    return dice.uniform(*_LATE_S) if roll < _VERY_LATE + _LATE else 0.0


def _moment(at: float) -> str:
    """Milliseconds, as Spark writes them: the texts are then equal on both sides."""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _line(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _damage(body: dict[str, Any], kind: str, dice: random.Random) -> bytes:
    line = _line(body)
    if kind == "truncated":
        return line[: dice.randint(len(line) // 3, len(line) - 2)]
    if kind == "wrong type":
        return _line({**body, "customer_id": dice.choice(("none", "twelve", "?"))})
    if kind == "no JSON":
        return dice.choice(_TEXTS)
    if kind == "no UTF-8":
        return _line({**body, "metric": "?metric?"}).replace(b"?metric?", b"caf\xe9 \xff")
    return b"[" + line + b"]"
