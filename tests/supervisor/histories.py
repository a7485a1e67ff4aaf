"""Named histories of one pipeline, and what the supervisor should do next. They read as stories.

A story goes to `policy.decide` run by run: every run before the last decision is launched by the
policy itself, so attempts and restarts are what they would have been. Limits are the defaults
without jitter, so that a delay is a round number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.health.run_view import fold_all
from headrace.model.events import Event, EventKind
from headrace.model.limits import DrainLimits, RestartLimits, WatchdogLimits
from headrace.model.runs import Desired, Ending, Exit, Orders, PastRun, RunSpec, Wanted
from headrace.supervisor.situation import LiveRun, PolicyLimits, Situation

LIMITS = PolicyLimits(RestartLimits(jitter=0.0), WatchdogLimits(), DrainLimits())
WANTED = Desired("orders", Wanted.RUNNING, "v1", "dev", "orders.py", by="ann")
STOPPED = replace(WANTED, wanted=Wanted.STOPPED.value)
UNKNOWN = replace(WANTED, wanted=Wanted.UNKNOWN.value)
QUERY = "totals"


@dataclass(frozen=True)
class Ran:
    """A run that is over: how it ended, and what it did before."""

    ending: str
    lived_s: float = 5.0
    committed: int = 0
    worked: bool = False
    kind: str | None = None
    batch: int | None = 7
    fingerprint: str = "ValueError in price()"
    slug: str | None = None
    retries: int | None = None
    code: int = 1
    generation: int = 1


def crashed(**facts: object) -> Ran:
    return replace(Ran(Ending.FAILED, kind="retry", slug="kafka-timeout"), **facts)


def poisoned(**facts: object) -> Ran:
    return replace(Ran(Ending.FAILED, kind="data", slug="python-udf"), **facts)


def strange(**facts: object) -> Ran:
    return replace(Ran(Ending.FAILED, kind="unknown"), **facts)


def out_of_memory(**facts: object) -> Ran:
    return replace(Ran(Ending.FAILED, kind="retry-then-human", retries=2, slug="memory"), **facts)


def refused(slug: str, code: int = 3, **facts: object) -> Ran:
    return replace(Ran(Ending.REFUSED, code=code, slug=slug, batch=None), **facts)


def killed(**facts: object) -> Ran:
    return replace(Ran(Ending.VANISHED, batch=None, code=-1), **facts)


def hung(**facts: object) -> Ran:
    return replace(Ran(Ending.STALLED, batch=None, code=-1), **facts)


def well(ran: Ran) -> Ran:
    """The same end after an hour of work."""
    return replace(ran, lived_s=3600.0, committed=60, worked=True)


DRAINED = Ran(Ending.DRAINED, code=0, lived_s=600, committed=9, worked=True)
FINISHED = Ran(Ending.FINISHED, code=0, lived_s=30, committed=3, worked=True)
FENCED = Ran(Ending.FENCED, code=7)


@dataclass(frozen=True)
class Story:
    """`after_s`: how long ago the last run ended, or the live one began. `expect`: in words."""

    name: str
    expect: list[str]
    runs: list[Ran] = field(default_factory=list)
    live: Callable[[float], LiveRun] | None = None
    after_s: float = 0.0
    desired: Desired = WANTED
    limits: PolicyLimits = LIMITS
    survivors: tuple[str, ...] = ()
    open_alerts: frozenset[str] = frozenset()
    going_down: bool = False


def retries(limit: int) -> PolicyLimits:
    return replace(LIMITS, restart=replace(LIMITS.restart, retries=limit))


def alive(
    *events: Event,
    orders: Orders | None = None,
    exit_seen: float | None = None,
    unsignalled: bool = False,
    past_gaps: bool = False,
    **spec: object,
) -> Callable[[float], LiveRun]:
    """A live run that began `now` seconds ago; events and orders count from its beginning."""

    def build(began: float) -> LiveRun:
        view = fold_all(replace(event, at=began + event.at) for event in events)
        given = orders or Orders()
        names = ("drain_at", "cut_at", "kill_at", "dumped_at")
        moved = {n: getattr(given, n) + began for n in names if getattr(given, n) is not None}
        run = RunSpec("orders-live", "orders", "/p", "/s", "v1", "dev", "orders.py")
        seen = None if exit_seen is None else began + exit_seen
        given = replace(given, **moved)
        return LiveRun(replace(run, **spec), view, began, given, seen, unsignalled, past_gaps)

    return build


def beat(at: float, active: bool = True, data: bool = True, tasks: int | None = None) -> Event:
    status = {"message": "…", "data_available": data, "trigger_active": active}
    status = status if tasks is None else {**status, "tasks_done": tasks}
    return Event(at, EventKind.SAMPLED, data={"queries": {QUERY: status}})


def began(at: float = 2.0, **data: object) -> Event:
    return Event(at, EventKind.QUERY_STARTED, QUERY, data)


def committed(at: float, batch: int = 1, took_ms: float = 1000) -> Event:
    progress = {"batchId": batch, "numInputRows": 10, "durationMs": {"triggerExecution": took_ms}}
    return Event(at, EventKind.PROGRESSED, QUERY, {"progress": progress})


def opening(since: float, until: float) -> tuple[Event, ...]:
    """Heartbeats of a query whose source is being opened: no trigger is active yet."""
    return tuple(beat(at, active=False, data=False) for at in range(int(since), int(until) + 1, 5))


def idled(at: float) -> Event:
    return Event(at, EventKind.IDLED, QUERY)


def working(until: float) -> tuple[Event, ...]:
    """A healthy life: a heartbeat every 5 s, a batch every 10 s."""
    events = [Event(1.0, EventKind.RUN_STARTED, data={"pid": 7, "jvm_pid": 8}), began()]
    for second in range(5, int(until) + 1, 5):
        events += [beat(second), committed(second, second)] if second % 10 == 0 else [beat(second)]
    return tuple(events)


def hanging(since: float, until: float, **how: bool) -> tuple[Event, ...]:
    """Heartbeats go on, batches do not."""
    beats = (beat(at, **how) for at in range(int(since) + 5, int(until) + 1, 5))
    return (*working(since), *beats)


STORIES = [
    Story("a new pipeline is started at once", ["launch attempt 1"]),
    Story("what was stopped before its first run stays so", ["hold stopped"], desired=STOPPED),
    # Crashes
    Story("a crash waits a second", ["wait 1 s for attempt 2"], [crashed()]),
    Story("after the second it starts again", ["launch attempt 2"], [crashed()], after_s=1.0),
    Story("the second crash waits two", ["wait 2 s for attempt 3"], [crashed()] * 2),
    Story(
        "the fourth crash in a row waits eight, and people hear of it",
        ["wait 8 s for attempt 5", "open restarting"],
        [crashed()] * 4,
    ),
    Story(
        "the ninth waits no longer than a minute",
        ["wait 60 s for attempt 10", "open restarting"],
        [crashed()] * 9,
    ),
    Story(
        "a network failure is retried forever",
        ["launch attempt 41", "open restarting"],
        [crashed()] * 40,
        after_s=60.0,
    ),
    Story(
        "unless the user set a limit",
        ["give up: restart.retries = 3", "open restarts-off"],
        [crashed()] * 4,
        limits=retries(3),
    ),
    Story(
        "up to that limit it is retried",
        ["wait 4 s for attempt 4", "open restarting"],
        [crashed()] * 3,
        limits=retries(3),
    ),
    Story(
        "a limit of none means the first crash is the last",
        ["give up: restart.retries = 0", "open restarts-off"],
        [crashed()],
        limits=retries(0),
    ),
    Story(
        "an hour of work makes the next restart quick again",
        ["wait 1 s for attempt 2"],
        [crashed()] * 6 + [well(crashed())],
    ),
    Story(
        "an hour without work does not",
        ["wait 4 s for attempt 4", "open restarting"],
        [crashed()] * 2 + [crashed(lived_s=3600.0)],
    ),
    Story(
        "work for less than a minute does not either",
        ["wait 4 s for attempt 4", "open restarting"],
        [crashed()] * 2 + [crashed(lived_s=59.0, committed=5, worked=True)],
    ),
    Story("a killed driver comes back", ["launch attempt 2"], [killed()], after_s=1.0),
    Story(
        "a driver that is killed all the time comes back all the time",
        ["launch attempt 13", "open restarting"],
        [killed()] * 12,
        after_s=60.0,
    ),
    Story("a hung one comes back too", ["launch attempt 2"], [hung()], after_s=1.0),
    Story(
        "one that hangs three times without a commit needs a person",
        ["give up: the driver hung 3 times", "open needs-attention"],
        [hung()] * 3,
    ),
    Story(
        "being killed between two hangs excuses nothing",
        ["give up: the driver hung 3 times", "open needs-attention"],
        [hung(), killed(), hung(), hung()],
    ),
    Story(
        "a commit between hangs restarts that count",
        ["wait 4 s for attempt 4", "open restarting"],
        [hung(), hung(), hung(committed=1)],
    ),
    Story(
        "a full disk opens an alert at once and is waited for",
        ["wait 1 s for attempt 2", "open restarting"],
        [crashed(slug="disk-full")],
    ),
    # Three times the same
    Story("bad data is tried a second time", ["wait 1 s for attempt 2"], [poisoned()]),
    Story("and a third", ["wait 2 s for attempt 3"], [poisoned()] * 2),
    Story(
        "three times the same failure in the same batch needs a person",
        ["give up: the same failure 3 times in totals, batch 7,", "open needs-attention"],
        [poisoned()] * 3,
    ),
    Story(
        "so does a failure that nobody knows",
        ["give up: the same failure 3 times", "open needs-attention"],
        [strange()] * 3,
    ),
    Story(
        "a run that got that far first counts as the first of three",
        ["give up: the same failure 3 times", "open needs-attention"],
        [well(poisoned()), poisoned(), poisoned()],
    ),
    Story(
        "a commit in between restarts the count",
        ["wait 4 s for attempt 4", "open restarting"],
        [poisoned(), poisoned(), poisoned(batch=8, committed=1)],
    ),
    Story(
        "another failure in the same batch is another failure",
        ["wait 4 s for attempt 4", "open restarting"],
        [poisoned(), poisoned(), poisoned(fingerprint="KeyError in tax()")],
    ),
    Story(
        "two failures taking turns are found out all the same",
        ["give up: the same failure 3 times", "open needs-attention"],
        [poisoned(fingerprint=f) for f in ("a", "b", "a", "b", "a")],
    ),
    Story(
        "being killed in between excuses nothing",
        ["give up: the same failure 3 times", "open needs-attention"],
        [poisoned(), killed(), poisoned(), crashed(), poisoned()],
    ),
    Story(
        "but a commit of a killed run does",
        ["wait 8 s for attempt 5", "open restarting"],
        [poisoned(), poisoned(), killed(committed=1), poisoned()],
    ),
    Story(
        "without a checkpoint every run commits and fails at the same batch: it goes on",
        ["launch attempt 6", "open restarting"],
        [poisoned(committed=7)] * 5,
        after_s=60.0,
    ),
    Story(
        "code that fails before its first batch is tried three times",
        ["give up: the same failure 3 times", "open needs-attention"],
        [strange(batch=None)] * 3,
    ),
    # Memory, and other things with a number
    Story("memory is retried twice", ["wait 2 s for attempt 3"], [out_of_memory()] * 2),
    Story(
        "then a person is asked",
        ["give up: tried 3 times", "open needs-attention"],
        [out_of_memory()] * 3,
    ),
    Story(
        "another failure in between restarts that count",
        ["wait 16 s for attempt 6", "open restarting"],
        [out_of_memory(), crashed(), out_of_memory(), crashed(), out_of_memory()],
    ),
    Story(
        "an hour of work in between restarts that count",
        ["wait 2 s for attempt 3"],
        [out_of_memory(), out_of_memory(), well(out_of_memory()), out_of_memory()],
    ),
    # Never
    Story(
        "a definition error is not retried",
        ["give up: refused", "open needs-attention"],
        [refused("bad-definition", code=2)],
    ),
    Story(
        "nor is a machine that is not ready",
        ["give up: refused", "open needs-attention"],
        [refused("no-java")],
    ),
    Story(
        "nor what the catalogue gives to people",
        ["give up: it failed", "open needs-attention"],
        [strange(kind="human")],
    ),
    Story("a fenced run stays out", ["give up: fenced", "open needs-attention"], [FENCED]),
    Story(
        "needs attention is reported once",
        ["give up: refused"],
        [refused("no-java")],
        open_alerts=frozenset({"needs-attention:orders"}),
    ),
    Story(
        "needs attention takes the place of restarting",
        ["give up: the same failure", "open needs-attention", "resolve restarting:orders"],
        [poisoned()] * 3,
        open_alerts=frozenset({"restarting:orders"}),
    ),
    Story(
        "a checkpoint that the dying JVM still holds is tried again",
        ["wait 1 s for attempt 2"],
        [refused("checkpoint-held")],
    ),
    Story(
        "but not forever: another process may hold it",
        ["give up: tried 6 times", "open needs-attention"],
        [refused("checkpoint-held")] * 6,
    ),
    Story(
        "a refusal that the catalogue calls passing is retried",
        ["wait 1 s for attempt 2"],
        [refused("kafka-timeout", kind="retry")],
    ),
    Story("what has read everything is finished", ["hold finished"], [FINISHED], after_s=9999.0),
    # People
    Story(
        "a new generation starts with a clean slate",
        ["launch attempt 1", "resolve needs-attention:orders"],
        [poisoned()] * 3,
        desired=replace(WANTED, generation=2),
        open_alerts=frozenset({"needs-attention:orders"}),
    ),
    Story(
        "what a person stopped stays stopped, whatever happened before",
        ["hold stopped"],
        [crashed()] * 2,
        desired=STOPPED,
        after_s=9999.0,
    ),
    Story(
        "stopping it also ends the alert",
        ["hold stopped", "resolve needs-attention:orders"],
        [poisoned()] * 3,
        desired=STOPPED,
        open_alerts=frozenset({"needs-attention:orders"}),
    ),
    Story(
        "what should run and nobody knows it is not started",
        ["give up: Headrace does not know whether orders should run", "open needs-attention"],
        desired=UNKNOWN,
    ),
    Story(
        "nor started again, whatever happened before",
        ["give up: to run it: headrace start orders", "open needs-attention"],
        [crashed()] * 2,
        desired=UNKNOWN,
        after_s=9999.0,
    ),
    Story(
        "nor ended if it runs, but people hear of it",
        ["wait 50 s", "open needs-attention"],
        live=alive(*working(60)),
        after_s=60.0,
        desired=UNKNOWN,
    ),
    Story("down and up brings it back", ["launch attempt 1"], [DRAINED], after_s=30.0),
    Story("someone else's SIGTERM too", ["wait 1 s for attempt 1"], [DRAINED]),
    Story("going down starts nothing", ["hold the supervisor"], [crashed()], going_down=True),
    Story(
        "a stopped run is drained",
        ["drain: stopped by ann"],
        live=alive(*working(60)),
        after_s=60.0,
        desired=STOPPED,
    ),
    Story(
        "a new version drains the old one first",
        ["drain: version v2 replaces v1"],
        live=alive(*working(60)),
        after_s=60.0,
        desired=replace(WANTED, version="v2", generation=2),
    ),
    Story(
        "a restart drains first, too",
        ["drain: restarted by ann"],
        live=alive(*working(60)),
        after_s=60.0,
        desired=replace(WANTED, generation=2),
    ),
    Story(
        "down drains",
        ["drain: the supervisor is stopping"],
        live=alive(*working(60)),
        after_s=60.0,
        going_down=True,
    ),
    Story(
        "a drain has half a minute, and then some",
        ["wait 5 s"],
        live=alive(*working(20), orders=Orders(drain_at=20, drain_reason="stopped by ann")),
        after_s=60.0,
        desired=STOPPED,
    ),
    Story(
        "then it is killed",
        ["kill: it did not stop within 45 s"],
        live=alive(*working(20), orders=Orders(drain_at=20, drain_reason="stopped by ann")),
        after_s=65.0,
        desired=STOPPED,
    ),
    Story(
        "a drain goes on although the person changed their mind",
        ["wait 30 s"],
        live=alive(*working(20), orders=Orders(drain_at=20, drain_reason="stopped by ann")),
        after_s=35.0,
    ),
    Story(
        "a drain of which the driver knows nothing is asked for again by the next supervisor",
        ["drain: stopped by ann"],
        live=alive(
            beat(1),
            orders=Orders(drain_at=0, drain_reason="stopped by ann"),
            unsignalled=True,
        ),
        after_s=2.0,
        desired=STOPPED,
    ),
    Story(
        "after a moment, in which it may show that it knows",
        ["wait 44 s"],
        live=alive(
            beat(1),
            orders=Orders(drain_at=0, drain_reason="stopped by ann"),
            unsignalled=True,
        ),
        after_s=1.0,
        desired=STOPPED,
    ),
    Story(
        "who was never asked to end is not killed for it, however long the supervisor was away",
        ["wait 1 s"],
        live=alive(
            beat(1),
            orders=Orders(drain_at=-100, drain_reason="stopped by ann"),
            unsignalled=True,
        ),
        after_s=1.0,
        desired=STOPPED,
    ),
    Story(
        "a cut is a second signal, after the first",
        ["cut"],
        live=alive(*working(20), orders=Orders(drain_at=20, wants_cut=True)),
        after_s=20.5,
        desired=STOPPED,
    ),
    Story(
        "a cut run gets no half minute",
        ["kill: did not stop"],
        live=alive(*working(20), orders=Orders(drain_at=20, wants_cut=True, cut_at=21)),
        after_s=36.0,
        desired=STOPPED,
    ),
    Story(
        "a process that stays after its last words is killed",
        ["kill: the process did not exit"],
        live=alive(*working(20), exit_seen=20.0),
        after_s=35.0,
    ),
    Story(
        "a kill that does not take is repeated",
        ["kill: no heartbeat"],
        live=alive(
            *working(20), orders=Orders(kill_at=90, kill_reason="no heartbeat", by_watchdog=True)
        ),
        after_s=95.0,
    ),
    # What is left of a run
    Story(
        "nothing starts while the old JVM lives",
        ["reap orders-0"],
        [killed()],
        after_s=100.0,
        survivors=("orders-0",),
    ),
    Story(
        "a JVM that is tidying up has a moment for it",
        ["wait 2 s"],
        [DRAINED],
        after_s=1.0,
        survivors=("orders-0",),
    ),
    Story(
        "and not more",
        ["reap orders-0"],
        [DRAINED],
        after_s=3.0,
        survivors=("orders-0",),
    ),
    Story(
        "while it waits for them, it is not decided whether it restarts: people hear of it later",
        ["wait 2 s"],
        [crashed()] * 4,
        after_s=1.0,
        survivors=("orders-3",),
    ),
    Story(
        "nothing is left of a stopped pipeline either",
        ["reap orders-0"],
        [killed()],
        after_s=1.0,
        survivors=("orders-0",),
        desired=STOPPED,
    ),
    # The watchdog
    Story(
        "a run that has left behind what was gone makes room for a strict one",
        ["drain: the accepted gap has been skipped"],
        live=alive(*working(60), past_gaps=True, accepted_gaps=()),
        after_s=60.0,
    ),
    Story("a run that works is left alone", ["wait 50 s"], live=alive(*working(60)), after_s=60.0),
    Story(
        "a driver may take three minutes to start",
        ["wait 1 s"],
        live=alive(Event(1.0, EventKind.RUN_STARTED, data={"pid": 7})),
        after_s=180.0,
    ),
    Story(
        "every line of a slow start is a sign of life",
        ["wait 80 s"],
        live=alive(Event(1.0, EventKind.RUN_STARTED, data={"pid": 7}), began(100.0)),
        after_s=200.0,
    ),
    Story(
        "a start that falls silent half way is given up",
        ["kill: no heartbeat for 3 min"],
        live=alive(Event(1.0, EventKind.RUN_STARTED, data={"pid": 7}), began(100.0)),
        after_s=280.0,
    ),
    Story(
        "but no longer",
        ["kill: no heartbeat within 3 min of its start"],
        live=alive(),
        after_s=180.0,
    ),
    Story(
        "silence for fifty seconds is death",
        ["kill: no heartbeat for 50 s"],
        live=alive(*working(60)),
        after_s=110.0,
    ),
    Story(
        "five minutes without a batch is a stall: tell, and look at the threads",
        ["dump threads", "wait 300 s", "open stalled"],
        live=alive(*hanging(60, 360)),
        after_s=360.0,
    ),
    Story(
        "it is reported and inspected once",
        ["wait 240 s"],
        live=alive(*hanging(60, 420), orders=Orders(dumped_at=360)),
        after_s=420.0,
        open_alerts=frozenset({"stalled:orders:totals"}),
    ),
    Story(
        "twice as long and it is killed",
        ["kill: totals has not finished a batch for 10 min while data is waiting"],
        live=alive(*hanging(60, 660), orders=Orders(dumped_at=360)),
        after_s=660.0,
        open_alerts=frozenset({"stalled:orders:totals"}),
    ),
    Story(
        "a source that does not open in five minutes is a stall, too",
        ["dump threads", "wait 300 s", "open stalled"],
        live=alive(began(0.0), *opening(5, 300)),
        after_s=300.0,
    ),
    Story(
        "and is killed after ten",
        ["kill: totals did not finish its first batch within 10 min of starting"],
        live=alive(began(0.0), *opening(5, 600), orders=Orders(dumped_at=300)),
        after_s=600.0,
        open_alerts=frozenset({"stalled:orders:totals"}),
    ),
    Story(
        "after a hang a driver has twice the time",
        ["wait 50 s"],
        [hung()],
        live=alive(began(0.0), *(beat(t) for t in range(5, 596, 5))),
        after_s=595.0,
    ),
    Story(
        "after two it has four times, and not more",
        ["dump threads", "wait 1200 s", "open stalled"],
        [hung()] * 2,
        live=alive(began(0.0), *(beat(t) for t in range(5, 1201, 5))),
        after_s=1200.0,
    ),
    Story(
        "once it commits it is judged as usual",
        ["dump threads", "wait 300 s", "open stalled"],
        [hung()] * 2,
        live=alive(*hanging(60, 360)),
        after_s=360.0,
    ),
    Story(
        "a stall is not over because a driver started",
        ["wait 50 s"],
        [hung()],
        live=alive(began(), beat(5)),
        after_s=5.0,
        open_alerts=frozenset({"stalled:orders:totals"}),
    ),
    Story(
        "it is over when work is done",
        ["wait 50 s", "resolve stalled:orders:totals"],
        [hung()],
        live=alive(*working(70)),
        after_s=70.0,
        open_alerts=frozenset({"stalled:orders:totals"}),
    ),
    Story(
        "a query that waits for its hourly trigger is not stalled",
        ["wait 50 s"],
        live=alive(*hanging(60, 3000, active=False)),
        after_s=3000.0,
    ),
    Story(
        "a source without data is not a stall",
        ["wait 50 s"],
        live=alive(*working(60), *(e for t in range(70, 3001, 10) for e in (beat(t), idled(t)))),
        after_s=3000.0,
    ),
    Story(
        "a slow batch is none while its tasks advance",
        ["wait 50 s"],
        live=alive(*working(60), *(beat(t, tasks=t // 100) for t in range(65, 2001, 5))),
        after_s=2000.0,
    ),
    Story(
        "a query whose batches take four minutes has twenty",
        ["wait 50 s"],
        live=alive(
            began(),
            *(committed(t, t, took_ms=240_000) for t in (240, 480, 720)),
            *(beat(t) for t in range(725, 1201, 5)),
        ),
        after_s=1200.0,
    ),
    Story(
        "a real-time query is silent for its batch",
        ["wait 50 s"],
        live=alive(began(2.0, batch_length_s=600), *(beat(t) for t in range(5, 1001, 5))),
        after_s=1000.0,
    ),
]


def situation(story: Story, decide: Callable[..., Any]) -> tuple[Situation, float]:
    """Replays the story's runs through the policy up to the moment that is asked about."""
    now, past = 1_000_000.0, []
    for number, ran in enumerate(story.runs):
        want = replace(WANTED, generation=ran.generation)
        so_far = Situation(want, past=tuple(past), limits=story.limits)
        later = now + 1000.0  # every delay is over by then
        launch = decide(so_far, later)[0]
        now = later + ran.lived_s
        past.append(_past(ran, number, launch.attempt, launch.restarts, now))
    live = story.live(now) if story.live else None
    made = Situation(
        desired=story.desired,
        live=live,
        past=tuple(past),
        limits=story.limits,
        survivors=story.survivors,
        is_going_down=story.going_down,
    )
    return made, now + story.after_s


def _past(ran: Ran, number: int, attempt: int, restarts: int, now: float) -> PastRun:
    spec = RunSpec(
        f"orders-{number}",
        "orders",
        "/p",
        "/s",
        "v1",
        "dev",
        "orders.py",
        generation=ran.generation,
        attempt=attempt,
        restarts=restarts,
        at=now - ran.lived_s,
    )
    exit_ = Exit(
        ran.ending,
        ran.code,
        now,
        error={"slug": ran.slug, "what": f"It {ran.ending}."},
        query=QUERY,
        batch=ran.batch,
        kind=ran.kind,
        retries=ran.retries,
        failure=ran.slug,
        fingerprint=ran.fingerprint,
    )
    return PastRun(spec, exit_, now, ran.lived_s, ran.worked, {QUERY: ran.committed})
