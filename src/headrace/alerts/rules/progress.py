"""Rules about how fast a query works: freshness, batches, no data. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

from headrace.alerts.rules.words import KEEPS_RUNNING, words
from headrace.model.rules import Hit, PipelineFacts, Unknown
from headrace.model.times import span

BATCHES_MIN = 5


def freshness(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit]:
    for query in facts.queries:
        broken = query.status.broken_promise
        if broken is None:
            continue
        fix = (
            f"Run `headrace why {facts.name}` to see where the time goes. Then use more cores, "
            "trigger more often, or relax fresh_within."
        )
        said = words(facts, KEEPS_RUNNING, fix, query=query.name)
        yield Hit(f"{query.name} misses its freshness target: {broken}", query.name, said)


def slow_batch(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """The newest batches take longer than the interval of the trigger, so triggers are skipped."""
    for query in facts.queries:
        trigger_s, newest = query.trigger_s, query.batch_ms[-BATCHES_MIN:]
        if not trigger_s:
            continue
        if len(newest) < BATCHES_MIN:
            yield Unknown(query.name)
        elif (mean_s := fmean(newest) / 1000) > trigger_s * limits["times"]:
            title = (
                f"Batches of {query.name} take {span(mean_s)}, longer than the trigger interval "
                f"of {span(trigger_s)}"
            )
            fix = (
                f"Use a longer interval (every=), more cores, or less work in {query.name}. Look "
                "under “Why is it slow?” on the page to see what would help most."
            )
            said = words(facts, KEEPS_RUNNING, fix, query=query.name)
            yield Hit(title, query.name, said)


def no_data(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """No rows for longer than `after`; without that limit, never."""
    after_s = limits.get("after")
    if after_s is None:
        return
    for query in facts.queries:
        since = query.rows_at if query.rows_at is not None else query.begun_at
        if since is None:
            yield Unknown(query.name)
        elif facts.at - since >= after_s:
            title = f"{query.name} has read no rows for {span(facts.at - since)}"
            fix = "Check whether the source's producer is running and writes to the right place."
            said = words(
                facts, KEEPS_RUNNING, fix, cause="The source has no data.", query=query.name
            )
            yield Hit(title, query.name, said, since=since)
