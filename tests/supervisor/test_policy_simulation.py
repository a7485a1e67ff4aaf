"""Thousands of random lives of one pipeline against the policy; a failing seed is printed.

The world below keeps its own books, simpler and apart from the code under test: a process table, a
disk (runs, orders), a person, a clock. After every step the invariants are checked. A single seed:
SEED=1234 pytest tests/supervisor/test_policy_simulation.py
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace

import pytest

from headrace.alerts.engine import Changes
from headrace.health.run_view import QueryView, RunView
from headrace.model.limits import DrainLimits, RestartLimits, WatchdogLimits
from headrace.model.runs import Desired, Ending, Exit, Orders, PastRun, RunSpec, Wanted
from headrace.supervisor import decision_rules, restarts
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
    PolicyLimits,
    Reap,
    Situation,
    Wait,
)
from supervisor import rule_alerts

SEEDS = 5_000
STEPS = 20
BLOCK = 500
QUERY = "q"


@dataclass
class Driver:
    spec: RunSpec
    began: float
    view: RunView
    is_hung: bool = False  # no more lines
    is_deaf: bool = False  # does not hear SIGTERM
    terms: int = 0
    batch: int = 0


@dataclass
class World:
    """What really is. `failures` counts by our own book: same failure since the last commit."""

    random: random.Random
    now: float = 1_000_000.0
    desired: Desired = field(
        default_factory=lambda: Desired("p", Wanted.RUNNING, "v1", "dev", "p.py", by="ann")
    )
    limits: PolicyLimits = field(default_factory=PolicyLimits)
    driver: Driver | None = None
    orders: Orders = field(default_factory=Orders)
    survivors: dict[str, float] = field(default_factory=dict)  # run: dies by itself at
    past: list[PastRun] = field(default_factory=list)
    alerts: set[str] = field(default_factory=set)
    is_down: bool = False
    batch: int = 0  # the next to commit; survives drivers, as a checkpoint does
    poison: int | None = None  # this batch fails, always in the same way
    failures: dict[tuple[int, str], int] = field(default_factory=dict)
    hangs: int = 0  # since the last commit
    in_a_row: int = 0
    ended_at: float = 0.0
    launches: int = 0


def make(seed: int) -> World:
    dice = random.Random(seed)
    restart = RestartLimits(
        retries=dice.choice([None, None, None, 0, 3]),
        delay_s_min=dice.choice([0.5, 1.0]),
        delay_s_max=dice.choice([8.0, 60.0]),
        same_failure_max=dice.choice([1, 2, 3]),
    )
    watchdog = WatchdogLimits(start_s=60.0, alive_s=20.0, stall_s=40.0)
    return World(dice, limits=PolicyLimits(restart, watchdog, DrainLimits(10.0, 5.0)))


def step(world: World) -> None:
    world.now += world.random.choice([0.25, 1.0, 5.0, 15.0, 70.0])
    if world.survivors:
        world.survivors = {r: dies for r, dies in world.survivors.items() if dies > world.now}
    a_person_acts(world)
    if world.driver is not None:
        a_driver_lives(world, world.driver)
    seen = situation(world)
    decisions = decision_rules.decide(seen, world.now)
    check(world, decisions)
    alert(world, rule_alerts.changes(seen, decisions, world.alerts, world.now))
    for decision in decisions:
        carry_out(world, decision)
    check_world(world)


def a_person_acts(world: World) -> None:
    """More often while nothing runs: that is when people come, and when little else happens."""
    want, dice = world.desired, world.random
    world.is_down = world.is_down and dice.random() < 0.5
    match dice.randrange(24 if world.driver is not None else 12):
        case 0:
            world.desired = replace(want, wanted="stopped", generation=want.generation + 1)
        case 1 | 2:
            world.desired = replace(want, wanted="running", generation=want.generation + 1)
        case 3:
            more = {"wanted": "running", "generation": want.generation + 1}
            world.desired = replace(want, version=f"v{want.generation + 1}", **more)
        case 4:
            world.is_down = not world.is_down
        case 5:
            world.poison = world.batch if world.poison is None else None
        case 6 if world.driver is not None:
            world.orders = replace(world.orders, wants_cut=True)
    if world.desired.generation != want.generation:  # a clean slate, also in our book
        world.failures, world.in_a_row, world.hangs = {}, 0, 0


def a_driver_lives(world: World, driver: Driver) -> None:
    dice = world.random
    if driver.terms and not driver.is_deaf and not driver.is_hung:
        ended(world, Ending.DRAINED if driver.terms == 1 else Ending.CUT, survives=1.0)
        return
    match dice.randrange(14):
        case 0:
            ended(world, Ending.VANISHED, survives=dice.choice([0.0, 3.0, 1e9]))
        case 1:
            driver.is_hung = True
        case 2:
            driver.is_deaf = True
        case 3:
            ended(world, Ending.FAILED, kind="retry", fingerprint="net")
        case 4:
            ended(world, Ending.FAILED, kind="unknown", fingerprint=dice.choice("ab"))
        case 5:
            ended(world, Ending.REFUSED, kind=None, fingerprint="r")
        case 6 if dice.random() < 0.2:
            ended(world, Ending.FINISHED)
        case _ if driver.is_hung:
            pass
        case _ if world.poison == world.batch:
            ended(world, Ending.FAILED, kind="data", fingerprint="poison")
        case _:
            world.batch += 1
            driver.batch += 1
            world.failures, world.hangs = {}, 0
            now = world.now
            query = QueryView(QUERY, batches=driver.batch, batch=world.batch, advanced_at=now)
            first = driver.view.first_heartbeat_at or now
            driver.view = RunView(queries={QUERY: query}, heard_at=now, first_heartbeat_at=first)


def ended(
    world: World,
    ending: Ending,
    kind: str | None = None,
    fingerprint: str | None = None,
    survives: float = 0.0,
) -> None:
    driver = world.driver
    assert driver is not None
    if ending is Ending.VANISHED and world.orders.kill_at is not None and world.orders.by_watchdog:
        ending = Ending.STALLED
    code = 3 if ending is Ending.REFUSED else 1
    batch = world.batch if ending is Ending.FAILED else None
    exit_ = Exit(
        ending.value,
        code,
        world.now,
        query=QUERY if batch is not None else None,
        batch=batch,
        kind=kind,
        fingerprint=fingerprint,
    )
    lived = world.now - driver.began
    worked = driver.batch > 0
    committed = {QUERY: driver.batch}
    world.past.append(PastRun(driver.spec, exit_, world.now, lived, worked, committed))
    if survives:
        world.survivors[driver.spec.run] = world.now + survives
    keep_books(world, exit_, worked and lived >= world.limits.restart.healthy_after_s, driver)
    world.driver, world.ended_at = None, world.now


def keep_books(world: World, exit_: Exit, was_well: bool, driver: Driver) -> None:
    if driver.spec.generation != world.desired.generation:
        return  # a new generation begins its own count
    if exit_.ending in (Ending.DRAINED, Ending.CUT):
        world.in_a_row = 0
    else:
        world.in_a_row = 1 if was_well else world.in_a_row + 1
    world.hangs += exit_.ending == Ending.STALLED
    if exit_.kind in ("data", "unknown"):
        key = (exit_.batch or 0, exit_.fingerprint or "")
        world.failures[key] = world.failures.get(key, 0) + 1


def situation(world: World) -> Situation:
    """From the process table and the disk only: as good as a supervisor that has just started."""
    live = None
    if world.driver is not None:
        live = LiveRun(world.driver.spec, world.driver.view, world.driver.began, world.orders)
    return Situation(
        desired=world.desired,
        live=live,
        past=tuple(world.past[-50:]),
        limits=world.limits,
        survivors=tuple(world.survivors),
        is_going_down=world.is_down,
    )


def check(world: World, decisions: tuple[Decision, ...]) -> None:
    restart = world.limits.restart
    verdict = decisions[0]
    last = world.past[-1] if world.past else None
    is_current = last is not None and last.spec.generation == world.desired.generation
    for decision in decisions:
        if isinstance(decision, Launch):
            assert world.driver is None, "a second driver"
            assert not world.survivors, "a launch beside a survivor"
            assert world.desired.wanted == Wanted.RUNNING, "started what a person stopped"
            assert not world.is_down, "a launch while going down"
            assert not (is_current and last and last.exit.ending == Ending.FINISHED)
            assert not (is_current and last and last.exit.ending == Ending.REFUSED)
            if is_current:
                check_delay(world, waited=world.now - world.ended_at)
        if isinstance(decision, Reap):
            assert world.driver is None, "reaping beside a live run"
    if is_current and last is not None and isinstance(verdict, Launch | Wait | GiveUp):
        check_three_times(world, last, verdict)
    if isinstance(verdict, Wait) and verdict.next_attempt is not None:
        longest = restart.delay_s_max * (1 + restart.jitter)
        assert verdict.until - world.now <= longest, "a wait beyond every bound"


def check_delay(world: World, waited: float) -> None:
    restart = world.limits.restart
    doubled = restart.delay_s_min * 2 ** max(0, world.in_a_row - 1)
    nominal = min(restart.delay_s_max, doubled)
    assert waited >= nominal * (1 - restart.jitter) - 1e-6, f"too early: {waited} < {nominal}"


def check_three_times(world: World, last: PastRun, verdict: Decision) -> None:
    restart = world.limits.restart
    if world.driver is not None or world.survivors:
        return
    exit_ = last.exit
    times = world.failures.get((exit_.batch or 0, exit_.fingerprint or ""), 0)
    is_same = exit_.kind in ("data", "unknown") and times >= restart.same_failure_max
    is_used_up = restart.retries is not None and world.in_a_row > restart.retries
    is_refused = exit_.ending == Ending.REFUSED
    is_hung = exit_.ending == Ending.STALLED and world.hangs >= restart.same_failure_max
    assert isinstance(verdict, GiveUp) == (is_same or is_used_up or is_refused or is_hung), (
        f"{verdict} after {times} times, {world.in_a_row} in a row, {world.hangs} hangs: {exit_}"
    )


def carry_out(world: World, decision: Decision) -> None:
    match decision:
        case Launch(attempt, count):
            world.launches += 1
            want = world.desired
            name = f"p-{world.launches}-{world.random.randrange(10**6)}"
            spec = RunSpec(name, "p", "/p", "/s", want.version, "dev", "p.py")
            spec = replace(spec, generation=want.generation, attempt=attempt, restarts=count)
            world.driver = Driver(spec, world.now, RunView())
            world.orders = Orders()
        case Drain(reason):
            assert world.orders.drain_at is None, "drained twice"
            world.orders = replace(world.orders, drain_at=world.now, drain_reason=reason)
            hear_term(world)
        case Cut():
            assert world.orders.cut_at is None, "cut twice"
            world.orders = replace(world.orders, cut_at=world.now)
            hear_term(world)
        case Kill(reason, by_watchdog):
            world.orders = replace(
                world.orders, kill_at=world.now, kill_reason=reason, by_watchdog=by_watchdog
            )
            ended(world, Ending.VANISHED)
        case Reap(runs):
            for run in runs:
                world.survivors.pop(run, None)
        case DumpThreads():
            assert world.orders.dumped_at is None, "dumped twice"
            world.orders = replace(world.orders, dumped_at=world.now)
        case Wait() | Hold() | GiveUp():
            pass


def alert(world: World, changes: Changes) -> None:
    for opened in changes.opened:
        assert opened.key not in world.alerts, "opened twice"
        world.alerts.add(opened.key)
    for key in changes.resolved:
        assert key in world.alerts, "resolved what was not open"
        world.alerts.remove(key)


def hear_term(world: World) -> None:
    if world.driver is not None:
        world.driver.terms += 1


def check_world(world: World) -> None:
    limits, driver = world.limits, world.driver
    if driver is None or world.orders.kill_at is not None:
        return
    if world.orders.drain_at is not None:
        age = world.now - world.orders.drain_at
        assert age < limits.drain.timeout_s + limits.drain.kill_s, "a drain without end"
    else:
        heard = driver.view.heard_at or driver.began
        assert world.now - heard < limits.watchdog.start_s, "a dead driver was left alone"


def come_to_rest(world: World) -> None:
    """The last fault is over and a person says start: within two minutes it runs."""
    want = world.desired
    world.desired = replace(want, wanted="running", generation=want.generation + 1)
    world.is_down, world.poison, world.failures, world.in_a_row = False, None, {}, 0
    for _ in range(120):
        world.now += 1.0
        if world.driver is not None:
            driver = world.driver
            if driver.terms and not driver.is_deaf and not driver.is_hung:
                ended(world, Ending.DRAINED)
        for decision in decision_rules.decide(situation(world), world.now):
            carry_out(world, decision)
        if world.driver is not None and world.driver.spec.generation == world.desired.generation:
            return
    raise AssertionError("it never came to rest")


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(1, SEEDS // BLOCK))]
)
def test_no_schedule_breaks_the_promises(block: int) -> None:
    only = os.environ.get("SEED")
    seeds = [int(only)] if only else range(block * BLOCK, (block + 1) * BLOCK)
    for seed in seeds:
        world = make(seed)
        try:
            for _ in range(STEPS):
                step(world)
            come_to_rest(world)
        except AssertionError as exc:
            raise AssertionError(f"SEED={seed}: {exc}") from exc


def test_delays_stay_within_their_jitter_and_differ_between_runs() -> None:
    limits = RestartLimits()
    delays = set()
    for number in range(200):
        spec = RunSpec(f"p-{number}", "p", "/p", "/s", "v", "dev", "p.py", attempt=4)
        last = PastRun(spec, Exit(Ending.VANISHED, -1, 0.0), 0.0)

        delay = restarts.delay_s(last, limits)

        assert 7.2 <= delay <= 8.8
        assert delay == restarts.delay_s(last, limits)
        delays.add(delay)
    assert len(delays) > 100
