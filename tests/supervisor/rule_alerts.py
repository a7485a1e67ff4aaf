"""The alerts of a situation, by the rules, without a supervisor around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.alerts import engine
from headrace.alerts.rules import table
from headrace.health import judgement
from headrace.model.rules import PipelineFacts, QueryFacts
from headrace.model.runs import Ending, Wanted
from headrace.model.status import QueryStatus
from headrace.supervisor import restarts, rule_facts
from headrace.supervisor.situation import Decision, Situation

RULES = {rule.name: rule for rule in table.RUNS}


def facts_of(situation: Situation, verdict: Iterable[Decision], now: float) -> PipelineFacts:
    live, desired, past = situation.live, situation.desired, situation.past
    is_ending = live is not None and (
        live.orders.drain_at is not None or live.orders.kill_at is not None
    )
    stalls: tuple[judgement.Stall, ...] = ()
    if live is not None and not is_ending:
        patience = restarts.patience(desired, past, live.view)
        stalls = judgement.stalls(live.view, situation.limits.watchdog, now, patience)
    is_finished = (
        live is None
        and bool(past)
        and past[-1].spec.generation == desired.generation
        and past[-1].exit.ending == Ending.FINISHED
    )
    names = live.view.queries if live is not None else ()
    return PipelineFacts(
        desired.pipeline,
        now,
        "stalled" if stalls else "running",
        is_live=live is not None and not is_ending,
        is_over=desired.wanted == Wanted.STOPPED or is_finished,
        run=rule_facts.run_facts(situation, verdict, stalls, now, now),
        queries=tuple(QueryFacts(QueryStatus(name, "running")) for name in names),
    )


def changes(
    situation: Situation, verdict: Iterable[Decision], open_: Iterable[str], now: float
) -> engine.Changes:
    seen = engine.evaluate(RULES, facts_of(situation, verdict, now))
    severities: Mapping[str, str] = dict.fromkeys(open_, "critical")
    return engine.decide(seen, RULES, severities, engine.Remembered(), now)
