"""Builds the status of a pipeline from its keeper; `health.judgement` judges it. Pure."""

from __future__ import annotations

from headrace.health import judgement
from headrace.model.runs import Wanted
from headrace.model.status import PipelineStatus
from headrace.supervisor import restarts
from headrace.supervisor.pipeline_keeper import Keeper
from headrace.supervisor.situation import GiveUp, Hold, Wait


def subject_of(keeper: Keeper, now: float) -> judgement.Subject:
    live, desired = keeper.live, keeper.desired
    if live is not None:
        stopping = live.orders.kill_reason or live.orders.drain_reason or None
        if stopping is None and live.exit_seen_at is not None:
            stopping = "exit.json is written; the process is exiting"
        view = live.view
        patience = restarts.patience(desired, keeper.past, view)
        stalls = judgement.stalls(view, keeper.limits.watchdog, now, patience)
        findings = live.findings(keeper.limits.health, now)
        return judgement.Subject(
            desired, view, stopping, () if stopping else stalls, findings=findings
        )
    last, exit_ = keeper.past[-1] if keeper.past else None, None
    if last is not None and (
        last.spec.generation == desired.generation or desired.wanted == Wanted.STOPPED
    ):
        exit_ = last.exit
    verdict = keeper.verdict[0] if keeper.verdict else None
    if isinstance(verdict, GiveUp):
        return judgement.Subject(desired, attention=verdict.reason, last=exit_)
    if isinstance(verdict, Wait) and verdict.next_attempt is not None:
        return judgement.Subject(
            desired,
            next_start_at=verdict.until,
            next_attempt=verdict.next_attempt,
            because=verdict.reason,
            last=exit_,
        )
    aside = verdict.reason if isinstance(verdict, Hold) and verdict.is_aside else None
    return judgement.Subject(desired, last=exit_, aside=aside)


def status_of(keeper: Keeper, now: float, wall: float) -> PipelineStatus:
    subject = subject_of(keeper, now)
    state, why = judgement.judge(subject, now)
    live, last = keeper.live, keeper.past[-1] if keeper.past else None
    spec = live.spec if live is not None else last.spec if last is not None else None
    since = live.spec.at if live is not None else last.exit.at if last is not None else None
    is_waiting = subject.next_start_at is not None
    return PipelineStatus(
        name=keeper.name,
        state=state.value,
        why=why,
        run=spec.run if spec is not None else None,
        version=keeper.desired.version,
        dev=keeper.desired.dev,
        profile=keeper.desired.profile,
        pid=live.process.pid if live is not None else None,
        jvm_pid=live.view.jvm_pid if live is not None else None,
        since=since,
        restarts=spec.restarts if spec is not None else 0,
        next_start_at=wall + (subject.next_start_at or now) - now if is_waiting else None,
        cpu_s_per_million_rows=judgement.cpu_s_per_million_rows(subject.view),
        queries=judgement.query_statuses(subject, now),
        **judgement.memory(subject.view),
    )
