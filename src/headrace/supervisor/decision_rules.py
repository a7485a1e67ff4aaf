"""Decides what to do about one pipeline. Pure: the same situation and time give the same decisions.

Invariants: nothing is launched while a run lives or a process of an earlier run is left; a pipeline
that a person stopped, or may have stopped, is not started; a run that is asked to stop has a
deadline.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.health import judgement
from headrace.model.runs import Ending, PastRun, Wanted
from headrace.model.times import span
from headrace.supervisor import restarts
from headrace.supervisor.situation import (
    Cut,
    Decision,
    Drain,
    DumpThreads,
    GiveUp,
    Hold,
    Kill,
    LiveRun,
    Reap,
    Situation,
    Wait,
)

CUT_AFTER_S = 0.5  # between the two signals of a cut, so that they do not merge
KILL_AGAIN_S = 5.0
UNSIGNALLED_S = 2.0  # for a driver to report a drain that an earlier supervisor ordered
REAP_GRACE_S = 3.0  # for the JVM to clean up after its driver has ended


def decide(situation: Situation, now: float) -> tuple[Decision, ...]:
    if situation.live is not None:
        return _decide_live(situation, situation.live, now)
    return (_decide_without_run(situation, now),)


def leave_alone(situation: Situation, reason: str, now: float) -> tuple[Decision, ...]:
    """For a pipeline that this supervisor does not control."""
    if situation.live is None:
        verdict = _decide_without_run(replace(situation, survivors=(), is_going_down=False), now)
        if isinstance(verdict, GiveUp | Hold):  # true for any supervisor
            return (verdict,)
    return (Hold(reason, is_aside=True),)


def _decide_live(situation: Situation, live: LiveRun, now: float) -> tuple[Decision, ...]:
    orders, limits = live.orders, situation.limits
    if orders.kill_at is not None:
        again = orders.kill_at + KILL_AGAIN_S
        if now >= again:
            return (Kill(orders.kill_reason, orders.by_watchdog),)
        return (Wait(again, orders.kill_reason),)
    if live.exit_seen_at is not None:
        deadline = live.exit_seen_at + limits.drain.kill_s
        if now >= deadline:
            return (Kill("the process did not exit after writing exit.json"),)
        return (Wait(deadline, "ending"),)
    reason = why_stop(situation, live)
    if live.is_unsignalled and now >= live.known_since + UNSIGNALLED_S:
        return (Drain(orders.drain_reason),)
    if orders.drain_at is not None:
        timeout_s = limits.drain.timeout_s + live.view.longest_batch_s
        decision = _decide_draining(live, timeout_s, limits.drain.kill_s, now)
        # If it is unsignalled, it may never have been asked to stop.
        if live.is_unsignalled and isinstance(decision, Kill):
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
        return "the supervisor is stopping"
    if live.spec.generation != desired.generation:
        if live.spec.version != desired.version:
            return f"version {desired.version} replaces {live.spec.version}"
        return f"restarted by {desired.by}" if desired.by else "restarted"
    if live.has_passed_gaps:  # only a new run can turn the checks on
        return "the accepted gap has been skipped; restarting with data-loss checks on"
    return None


def _decide_draining(live: LiveRun, timeout_s: float, kill_s: float, now: float) -> Decision:
    orders = live.orders
    drain_at = orders.drain_at if orders.drain_at is not None else now
    deadline = drain_at + timeout_s + kill_s
    if orders.cut_at is not None:  # no batch to wait for, only the end of the driver
        deadline = min(deadline, orders.cut_at + kill_s)
    if now >= deadline:
        return Kill(f"it did not stop within {span(deadline - drain_at)} of the request")
    if orders.wants_cut and orders.cut_at is None:
        if now >= drain_at + CUT_AFTER_S:
            return Cut(orders.drain_reason)
        return Wait(drain_at + CUT_AFTER_S, orders.drain_reason)
    return Wait(deadline, orders.drain_reason)


def _watch(situation: Situation, live: LiveRun, now: float) -> tuple[Decision, ...]:
    """The watchdog: checks heartbeats, and progress."""
    limits, view = situation.limits.watchdog, live.view
    heard_at = view.heard_at if view.heard_at is not None else live.known_since
    if view.first_heartbeat_at is None:  # still starting
        if now >= heard_at + limits.start_s:
            waited = span(limits.start_s)
            since = f"within {waited} of its start" if view.heard_at is None else f"for {waited}"
            return (Kill(f"no heartbeat {since}", by_watchdog=True),)
        return (Wait(heard_at + limits.start_s, "starting"),)
    if now >= heard_at + limits.alive_s:
        return (Kill(f"no heartbeat for {span(now - heard_at)}", by_watchdog=True),)
    stalls = _stalls(situation, live, now)
    if not stalls:
        return (Wait(heard_at + limits.alive_s, "running"),)
    reason = "; ".join(stall.in_words() for stall in stalls)
    dump = () if live.orders.dumped_at is not None else (DumpThreads(reason),)
    if any(stall.is_hopeless for stall in stalls):
        return (*dump, Kill(reason, by_watchdog=True))
    return (*dump, Wait(now + min(s.kill_s - s.for_s for s in stalls), reason))


def _stalls(situation: Situation, live: LiveRun, now: float) -> tuple[judgement.Stall, ...]:
    patience = restarts.patience(situation.desired, situation.past, live.view)
    return judgement.stalls(live.view, situation.limits.watchdog, now, patience)


def _decide_without_run(situation: Situation, now: float) -> Decision:
    past = situation.past
    if situation.survivors:
        last = past[-1] if past else None
        if last is not None and last.spec.run in situation.survivors and _has_ended_by_itself(last):
            grace = min(last.ended_at, now) + REAP_GRACE_S
            if now < grace:
                return Wait(grace, "the last run's processes are still exiting")
        return Reap(situation.survivors)
    if situation.desired.wanted == Wanted.STOPPED:
        return Hold("stopped")
    if situation.is_going_down:
        return Hold("the supervisor is stopping")
    if doubt := judgement.unknown_intent(situation.desired):
        return GiveUp(doubt)
    return restarts.decide(situation.desired, past, situation.limits.restart, now)


def _has_ended_by_itself(last: PastRun) -> bool:
    return last.exit.ending not in (Ending.VANISHED, Ending.STALLED)
