"""What to do about one pipeline now. Pure: the same situation and time give the same decisions.

Read by `loop.py`, which carries decisions out and knows no rules of its own.
Invariants: nothing is launched while a run lives or a process of an old one is left; what a person
stopped, or may have stopped, is not started; a run that is asked to stop has a deadline.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from headrace.model import health, outcomes
from headrace.model.outcomes import PastRun
from headrace.model.runs import Ending, Wanted
from headrace.supervisor import restarts
from headrace.supervisor.situation import (
    Cut,
    Decision,
    Drain,
    DumpThreads,
    GiveUp,
    Hold,
    Kill,
    Launch,
    LiveRun,
    OpenAlert,
    Reap,
    ResolveAlert,
    Situation,
    Wait,
)

CUT_AFTER_S = 0.5  # between the two signals of a cut, so that they are two
KILL_AGAIN_S = 5.0
UNSIGNALLED_S = 2.0  # for a driver to tell of the drain that a former supervisor asked it for
REAP_GRACE_S = 3.0  # a JVM of a driver that ended by itself tidies up for a moment
TELL_AFTER_ATTEMPTS = 3  # "restarting" is no news while it may recover by itself
TELL_AT_ONCE = frozenset({"disk-full"})  # a person can help, and it goes on by itself


def decide(situation: Situation, now: float) -> tuple[Decision, ...]:
    """One verdict on the run, and what to open and resolve in the way of alerts."""
    verdict = (
        _with_a_live_run(situation, situation.live, now)
        if situation.live is not None
        else (_without_a_run(situation, now),)
    )
    return (*verdict, *_alerts(situation, verdict, now))


def leave_alone(situation: Situation, reason: str, now: float) -> tuple[Decision, ...]:
    """For a pipeline that is not this supervisor's to keep: nothing is done to it at all."""
    if situation.live is None:
        seen = replace(situation, survivors=(), is_going_down=False)
        verdict = _without_a_run(seen, now)
        if isinstance(verdict, GiveUp | Hold):  # as it would be with any supervisor
            return (verdict,)
    return (Hold(reason, is_aside=True),)


def _with_a_live_run(situation: Situation, live: LiveRun, now: float) -> tuple[Decision, ...]:
    orders, limits = live.orders, situation.limits
    if orders.kill_at is not None:
        again = orders.kill_at + KILL_AGAIN_S
        if now >= again:
            return (Kill(orders.kill_reason, orders.by_watchdog),)
        return (Wait(again, orders.kill_reason),)
    if live.exit_seen_at is not None:
        deadline = live.exit_seen_at + limits.drain.kill_s
        if now >= deadline:
            return (Kill("its exit is written, but the process did not end"),)
        return (Wait(deadline, "is ending"),)
    reason = why_stop(situation, live)
    if live.is_unsignalled and now >= live.known_since + UNSIGNALLED_S:
        return (Drain(orders.drain_reason),)
    if orders.drain_at is not None:
        timeout_s = limits.drain.timeout_s + live.view.longest_batch_s
        decision = _draining(live, timeout_s, limits.drain.kill_s, now)
        if live.is_unsignalled and isinstance(decision, Kill):  # it was never asked to end
            decision = Wait(live.known_since + UNSIGNALLED_S, orders.drain_reason)
        return (decision,)
    if reason is not None:
        return (Drain(reason),)
    return _watch(situation, live, now)


def why_stop(situation: Situation, live: LiveRun) -> str | None:
    desired = situation.desired
    if desired.wanted == Wanted.STOPPED:
        return f"stopped by {desired.by}" if desired.by else "stopped"
    if situation.is_going_down:
        return "the supervisor goes down"
    if live.spec.generation != desired.generation:
        if live.spec.version != desired.version:
            return f"version {desired.version} replaces {live.spec.version}"
        return f"restarted by {desired.by}" if desired.by else "restarted"
    if live.has_passed_gaps:  # a run cannot become strict, the next one is
        return "what was gone is behind it, and from now on a loss stops it again"
    return None


def _draining(live: LiveRun, timeout_s: float, kill_s: float, now: float) -> Decision:
    orders = live.orders
    drain_at = orders.drain_at if orders.drain_at is not None else now
    deadline = drain_at + timeout_s + kill_s
    if orders.cut_at is not None:  # there is no batch to wait for any more, only the driver's end
        deadline = min(deadline, orders.cut_at + kill_s)
    if now >= deadline:
        return Kill(f"did not end within {health.span(deadline - drain_at)} of being asked to")
    if orders.wants_cut and orders.cut_at is None:
        if now >= drain_at + CUT_AFTER_S:
            return Cut(orders.drain_reason)
        return Wait(drain_at + CUT_AFTER_S, orders.drain_reason)
    return Wait(deadline, orders.drain_reason)


def _watch(situation: Situation, live: LiveRun, now: float) -> tuple[Decision, ...]:
    """The watchdog: alive is one thing, progress another."""
    limits, view = situation.limits.watchdog, live.view
    heard_at = view.heard_at if view.heard_at is not None else live.known_since
    if view.first_heartbeat_at is None:  # no beat to miss yet, and many things to begin
        if now >= heard_at + limits.start_s:
            waited = health.span(limits.start_s)
            since = f"within {waited} of its start" if view.heard_at is None else f"for {waited}"
            return (Kill(f"no sign of life {since}", by_watchdog=True),)
        return (Wait(heard_at + limits.start_s, "starting"),)
    if now >= heard_at + limits.alive_s:
        return (Kill(f"no sign of life for {health.span(now - heard_at)}", by_watchdog=True),)
    stalls = _stalls(situation, live, now)
    if not stalls:
        return (Wait(heard_at + limits.alive_s, "running"),)
    words = "; ".join(stall.in_words() for stall in stalls)
    dump = () if live.orders.dumped_at is not None else (DumpThreads(words),)
    if any(stall.is_hopeless for stall in stalls):
        return (*dump, Kill(words, by_watchdog=True))
    return (*dump, Wait(now + min(s.kill_s - s.for_s for s in stalls), words))


def _stalls(situation: Situation, live: LiveRun, now: float) -> tuple[health.Stall, ...]:
    patience = restarts.patience(situation.desired, situation.past, live.view)
    return health.stalls(live.view, situation.limits.watchdog, now, patience)


def _without_a_run(situation: Situation, now: float) -> Decision:
    past = situation.past
    if situation.survivors:
        last = past[-1] if past else None
        if last is not None and last.spec.run in situation.survivors and _ended_by_itself(last):
            grace = min(last.ended_at, now) + REAP_GRACE_S
            if now < grace:
                return Wait(grace, "the last run's processes are ending")
        return Reap(situation.survivors)
    if situation.desired.wanted == Wanted.STOPPED:
        return Hold("stopped")
    if situation.is_going_down:
        return Hold("the supervisor goes down")
    if doubt := health.unknown_intent(situation.desired):
        return GiveUp(doubt)
    return restarts.after(situation.desired, past, situation.limits.restart, now)


def _ended_by_itself(last: PastRun) -> bool:
    return last.exit.ending not in (Ending.VANISHED, Ending.STALLED)


def _alerts(
    situation: Situation, verdict: tuple[Decision, ...], now: float
) -> tuple[OpenAlert | ResolveAlert, ...]:
    """What should be open, against what is. A condition opens once and is resolved once."""
    wanted = {alert.key: alert for alert in _wanted_alerts(situation, verdict, now)}
    kept = set() if _is_well(situation, now) else _that_stay(situation, verdict)
    opened = [alert for key, alert in wanted.items() if key not in situation.open_alerts]
    ours = situation.open_alerts & set(_keys(situation.desired.pipeline).values())
    resolved = [ResolveAlert(key) for key in sorted(ours - wanted.keys() - kept)]
    return (*opened, *resolved)


@functools.cache
def _keys(pipeline: str) -> Mapping[str, str]:
    return {rule: f"{rule}:{pipeline}" for rule in ("needs-attention", "restarting", "stalled")}


def _wanted_alerts(
    situation: Situation, verdict: tuple[Decision, ...], now: float
) -> list[OpenAlert]:
    name = situation.desired.pipeline
    keys, found = _keys(name), []
    reasons = [decision.reason for decision in verdict if isinstance(decision, GiveUp)]
    live = situation.live
    if live is not None and (doubt := health.unknown_intent(situation.desired)):
        reasons.append(doubt)  # it goes on, but would not be started again
    for reason in reasons:
        title = f"{name} needs attention: {reason}"
        found.append(OpenAlert(keys["needs-attention"], "needs-attention", title, "critical"))
    if live is not None and live.orders.drain_at is None and live.orders.kill_at is None:
        for stall in _stalls(situation, live, now)[:1]:
            title = f"{name} is stalled: {stall.in_words()}"
            found.append(OpenAlert(keys["stalled"], "stalled", title, query=stall.query))
    if live is None and any(isinstance(d, Wait | Launch) for d in verdict) and situation.past:
        last = situation.past[-1]
        failed = outcomes.attempts_in_a_row(last, situation.limits.restart)
        is_urgent = failed > 0 and last.exit.failure in TELL_AT_ONCE
        is_current = last.spec.generation == situation.desired.generation
        if is_current and (failed >= TELL_AFTER_ATTEMPTS or is_urgent):
            title = f"{name} keeps restarting: {health.cause(last.exit)}"
            found.append(OpenAlert(keys["restarting"], "restarting", title))
    return found


def _that_stay(situation: Situation, verdict: tuple[Decision, ...]) -> set[str]:
    """A stall and a row of restarts are over when work is done again, not when a driver starts.

    Needs-attention takes the place of "restarting": one condition, one open alert.
    """
    keys = _keys(situation.desired.pipeline)
    if situation.desired.wanted == Wanted.STOPPED or isinstance(verdict[0], GiveUp):
        return set()
    return {keys["stalled"], keys["restarting"]}


def _is_well(situation: Situation, now: float) -> bool:
    live = situation.live
    if live is None:
        return bool(situation.past) and situation.past[-1].exit.ending == Ending.FINISHED
    lived = now - live.known_since
    return health.is_healthy(live.view.has_worked, lived, situation.limits.restart)
