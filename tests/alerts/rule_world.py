"""A day of one pipeline on a simulated clock: events as a driver writes them, the real fold, the
real findings, the real policy, the real rules. Troubles are staged by the hour.

The pipeline is like the demo: a query that parses and keeps rows, a windowed one that joins two
inputs, and the quarantine. It is healthy and noisy: rates follow the time of day, batches vary,
there are bursts, late and bad rows, a driver that crashes now and then, a broker that pauses.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from alerts.rule_bench import RuleBench
from headrace.alerts.rules.metrics import METRICS
from headrace.alerts.rules.windows import Samples
from headrace.driver import progress_counts
from headrace.health.conditions import table
from headrace.health.run_view import QueryView, RunView, fold
from headrace.model.events import Event, EventKind
from headrace.model.freshness import ages_to_json
from headrace.model.lag import PartitionLag, QueryLag
from headrace.model.limits import RestartLimits
from headrace.model.pipeline import Definition, Query
from headrace.model.progress import from_spark
from headrace.model.rules import Disk, PipelineFacts, ProjectFacts, SqlResult
from headrace.model.runs import Desired, Ending, Exit, PastRun, RunSpec, Wanted
from headrace.supervisor import decision_rules, pipeline_status, rule_facts
from headrace.supervisor.situation import Launch, LiveRun, PolicyLimits, Situation

T0 = 1_900_000_000.0
STEP_S = 30.0
HOUR_S = 3600.0
GB = 1e9
KEPT, JOINED, BAD = "kept", "joined", "kept.quarantine"
COUNTED = {"parsed.logs": {"call": "hr.parse_json", "place": "p.py:1", "source": "incoming/"}}


@dataclass(frozen=True)
class Trouble:
    """From `hour`, for `minutes`; `name` is what the world does, `alert` what it raises."""

    hour: float
    name: str
    alert: str
    minutes: float = 30.0

    def is_on(self, hour: float) -> bool:
        return self.hour <= hour < self.hour + self.minutes / 60


@dataclass
class Live:
    """What the status needs of a running driver."""

    spec: RunSpec
    view: RunView
    known_since: float
    orders: Any = field(
        default_factory=lambda: SimpleNamespace(
            kill_reason="", drain_reason="", drain_at=None, kill_at=None, dumped_at=None
        )
    )
    exit_seen_at: float | None = None
    process: Any = field(default_factory=lambda: SimpleNamespace(pid=7))

    judged: tuple[float, Any, Any] = (0.0, None, {})

    def findings(self, limits: Any, now: float) -> Any:
        """Once a minute, as a simulated day has many; at once when an outage begins or ends."""
        outage = self.view.queries[KEPT].outage
        at, before, found = self.judged
        if now >= at + 60.0 or outage is not before:
            found = table.by_query(self.view, limits)
            self.judged = now, outage, found
        return found


class World:
    def __init__(self, seed: int, bench: RuleBench, troubles: tuple[Trouble, ...] = ()) -> None:
        self.dice = random.Random(seed)
        self.bench = bench
        self.troubles = troubles
        self.now = T0
        self.desired = Desired("shop", Wanted.RUNNING, "v1", "dev", "shop.py", by="ann")
        self.limits = PolicyLimits(RestartLimits(jitter=0.0))
        self.live: Live | None = None
        self.past: list[PastRun] = []
        self.verdict: tuple[Any, ...] = ()
        self.crashes = {self.dice.uniform(0.5, 23.5) for _ in range(4)} if not troubles else set()
        self.bursts = {self.dice.uniform(1, 23) for _ in range(3)}
        self.pauses = {self.dice.uniform(1, 23) for _ in range(2)} if not troubles else set()
        self.offset = self.waiting = self.behind = 0.0
        self.state = 5_000.0
        self.watermark = T0
        self.batch = 0
        self.heap = 0.2
        self.samples = Samples()
        self.samples.need(w for rule in bench.rules.values() for w in rule.windows)

    @property
    def hour(self) -> float:
        return (self.now - T0) / HOUR_S

    def has(self, name: str) -> bool:
        return any(one.name == name and one.is_on(self.hour) for one in self.troubles)

    def run(self, hours: float = 24.0) -> list[str]:
        while self.hour < hours:
            self.step()
        return self.bench.log

    def step(self) -> None:
        self.now += STEP_S
        self._people()
        if self.live is not None:
            for event in self._events() if not self.has("crashes") else ():
                self.live.view = fold(self.live.view, event, self.now)
            self._crash()
        situation = self._situation()
        self.verdict = decision_rules.decide(situation, self.now)
        for decision in self.verdict:
            if isinstance(decision, Launch):
                self._launch(decision)
                situation = self._situation()
        self._judge(situation)

    # ---- what happens

    def _people(self) -> None:
        """A person starts it again when the trouble is over."""
        retries = 0 if self.has("no-retries") else None
        self.limits = replace(self.limits, restart=replace(self.limits.restart, retries=retries))
        is_down = self.live is None and self.past and not self.has("poison")
        if is_down and not self.has("no-retries") and "GiveUp" in repr(self.verdict[:1]):
            self.desired = replace(self.desired, generation=self.desired.generation + 1)

    def _launch(self, decision: Launch) -> None:
        spec = RunSpec(
            f"shop-{self.now:.0f}",
            "shop",
            "/p",
            "/s",
            "v1",
            "dev",
            "shop.py",
            generation=self.desired.generation,
            attempt=decision.attempt,
            restarts=decision.restarts,
            at=self.now,
        )
        past = {name: query.series for name, query in self._last_queries().items()}
        view = RunView(past=past)
        self.live = Live(spec, view, self.now)
        begun = [Event(self.now, EventKind.RUN_STARTED, data={"pid": 7, "jvm_pid": 8})]
        for name in (KEPT, JOINED, BAD):
            data = {"id": name, "counted": COUNTED if name == KEPT else {}}
            if name == KEPT:
                data["fresh_within_s"] = 60.0
            begun.append(Event(self.now, EventKind.QUERY_STARTED, name, data))
        for event in begun:
            self.live.view = fold(self.live.view, event, self.now)

    def _last_queries(self) -> Mapping[str, QueryView]:
        return self._before

    _before: Mapping[str, QueryView] = {}

    def _crash(self) -> None:
        due = {at for at in self.crashes if at <= self.hour}
        self.crashes -= due
        kind, slug = ("retry", "kafka-timeout") if due else (None, "")
        if (
            self.has("crashes")
            or self.has("no-retries")
            or (self.has("flapping") and self.now - self.live.known_since > 150)
        ):
            kind, slug = "retry", "kafka-timeout"
        elif self.has("poison"):
            kind, slug = "data", "python-udf"
        if kind is not None:
            self._end(Ending.FAILED, kind, slug)

    def _end(self, ending: Ending, kind: str, slug: str) -> None:
        live = self.live
        assert live is not None
        self._before = live.view.queries
        error = {"slug": slug, "what": f"The driver failed ({slug}).", "fix": "Fix it."}
        exit_ = Exit(
            ending.value,
            1,
            self.now,
            error=error,
            query=KEPT,
            batch=7,
            kind=kind,
            failure=slug,
            fingerprint=slug,
        )
        lived = self.now - live.known_since
        committed = {name: query.batches for name, query in live.view.queries.items()}
        if kind == "data":
            committed = dict.fromkeys(committed, 0)
        done = PastRun(live.spec, exit_, self.now, lived, live.view.has_worked, committed)
        self.past = [*self.past, done][-50:]
        self.live = None

    def _events(self) -> Iterator[Event]:
        is_stuck = self.has("stuck")
        status = {"message": "…", "data_available": is_stuck, "trigger_active": is_stuck}
        statuses = {
            name: status if name == JOINED else {**status, "trigger_active": False}
            for name in (KEPT, JOINED, BAD)
        }
        self.heap = self.heap + 0.07 if self.heap < 0.75 else self.dice.uniform(0.15, 0.3)
        used = 0.95 if self.has("heap") else self.heap
        sample = {
            "queries": statuses,
            "heap_used": int(used * GB),
            "heap_after_gc": int((used if self.has("heap") else 0.2) * GB),
            "heap_max": int(GB),
            "memory": int(2 * GB),
            "cpu_s": (self.now - T0) / 2,
            "disk_free": int(99 * GB),
        }
        yield Event(self.now, EventKind.SAMPLED, data=sample)
        pause = any(at <= self.hour < at + 40 / HOUR_S for at in self.pauses)
        is_silent = self.has("silent") or pause
        if is_silent and self.live.view.queries[KEPT].outage is None:
            data = {"error": "Kafka b:9092: connection refused", "since": self.now}
            yield Event(self.now, EventKind.OUTAGE_BEGAN, KEPT, data)
        if not is_silent and self.live.view.queries[KEPT].outage is not None:
            yield Event(self.now, EventKind.OUTAGE_ENDED, KEPT, {})
        if self.has("no-data"):
            for name in (KEPT, JOINED, BAD):
                yield Event(self.now, EventKind.IDLED, name)
            return
        self.batch += 1
        if not is_silent:
            yield self._progressed(KEPT, self._kept())
        if not is_stuck:
            yield self._progressed(JOINED, self._joined())
        yield self._progressed(BAD, self._bad())

    def _progressed(self, name: str, body: dict[str, Any]) -> Event:
        fresh, extra = body.pop("fresh", None), body.pop("counts", {})
        found = progress_counts.from_progress(from_spark(body))
        found["counts"] |= extra
        data = {"progress": body, **found, **({"fresh": fresh} if fresh else {})}
        return Event(self.now, EventKind.PROGRESSED, name, data)

    def _rows(self) -> int:
        day = 200 + 100 * math.sin(self.hour / 24 * 2 * math.pi)
        return int(day * self.dice.uniform(0.8, 1.2) * STEP_S)

    def _body(self, rows: int, is_slow: bool = False, **more: Any) -> dict[str, Any]:
        took = self.dice.uniform(6_000, 13_000) if self.dice.random() < 0.98 else 38_000
        took = 36_000.0 if is_slow else took
        return {
            "batchId": self.batch,
            "timestamp": iso(self.now - took / 1000),
            "numInputRows": rows,
            "durationMs": {"triggerExecution": took, "addBatch": took},
            **more,
        }

    def _kept(self) -> dict[str, Any]:
        arrived = self._rows()
        if any(at <= self.hour < at + 60 / HOUR_S for at in self.bursts):
            arrived *= 3
        done = min(self.waiting + arrived, 13_500)
        if self.has("behind"):
            arrived, done = 12_000, 6_000
        elif self.waiting > 13_500 * 3:
            done = self.waiting + arrived  # a person has added cores
        self.waiting = max(0.0, self.waiting + arrived - done)
        self.offset += done
        behind = self.waiting + self.dice.uniform(0, 0.3) * done
        behind += 150_000 if self.has("lag") else 0  # far behind, and not falling further
        self.behind = behind
        worst = self.dice.uniform(5, 20) + (70 if self.has("old") else 0)
        worst = 65.0 if self.dice.random() < 0.003 else worst
        nulls = 1.0 if self.has("renamed") else self.dice.uniform(0.03, 0.06)
        renamed = {"unknown.logs.temperature": 100.0} if self.has("renamed") else {}
        source = {
            "description": "KafkaV2[Subscribe[t]]",
            "endOffset": {"t": {"0": int(self.offset)}},
            "latestOffset": {"t": {"0": int(self.offset + behind)}},
            "numInputRows": int(done),
        }
        ages = [(worst * 300, 50.0), (worst * 600, 45.0), (worst * 1000, 5.0)]
        return {
            **self._body(int(done), sources=[source]),
            "fresh": ages_to_json("arrival", int(done), ages),
            "counts": {"parsed.logs": 100.0, "null.logs.temp": round(100 * nulls), **renamed},
        }

    def _joined(self) -> dict[str, Any]:
        rows = self._rows()
        is_held = self.has("held")
        if not is_held:
            self.watermark = self.now - 60
        late = self.dice.uniform(0.005, 0.02) * (30 if self.has("late") else 1)
        removed = 40 + self.dice.randrange(20)
        added = 40 + self.dice.randrange(20) + (300 if self.has("grows") else 0)
        self.state += added - (0 if self.has("grows") else removed)
        if not self.has("grows") and self.state > 6_000:
            self.state, removed = 5_000.0, int(self.state - 5_000)
        ahead = 7_200 if self.has("future") and self.batch % 2 else 0
        times = {
            "max": iso(self.now + ahead),
            "avg": iso(self.now - 10),
            "min": iso(self.now - 50),
            "watermark": iso(self.watermark),
        }
        half = rows if is_held else rows // 2
        sources = [
            {"description": "FileStreamSource[file:/in/a]", "numInputRows": half},
            {"description": "FileStreamSource[file:/in/b]", "numInputRows": rows - half},
        ]
        operator = {
            "operatorName": "stateStoreSave",
            "numRowsTotal": int(self.state),
            "numRowsUpdated": int(500 * (1 - late)),
            "numRowsDroppedByWatermark": int(500 * late),
            "numRowsRemoved": 0 if self.has("grows") else removed,
        }
        is_slow = self.has("slow")
        return self._body(
            rows, is_slow, sources=sources, eventTime=times, stateOperators=[operator]
        )

    def _bad(self) -> dict[str, Any]:
        bad = 0.6 if self.has("bad") else self.dice.uniform(0.002, 0.015)
        observed = {"headrace_quarantine": {"rows": 1000, "bad": int(1000 * bad)}}
        return self._body(1000, observedMetrics=observed)

    # ---- what is made of it

    def _situation(self) -> Situation:
        live = self.live
        seen = LiveRun(live.spec, live.view, live.known_since) if live is not None else None
        return Situation(self.desired, seen, tuple(self.past), self.limits)

    def _judge(self, situation: Situation) -> None:
        keeper: Any = SimpleNamespace(
            name="shop",
            live=self.live,
            desired=self.desired,
            past=self.past,
            limits=self.limits,
            verdict=self.verdict,
        )
        status = pipeline_status.status_of(keeper, self.now, self.now)
        stalls = pipeline_status.subject_of(keeper, self.now).stalls
        run = rule_facts.run_facts(situation, self.verdict, stalls, self.now, self.now)
        around = rule_facts.Around(
            {KEPT: self._lag()}, {KEPT: ("kept → data",)}, DEFINITION, 16 * GB
        )
        facts = rule_facts.pipeline_facts(status, run, situation.live, around, self.now)
        self._sample(facts)
        facts = replace(facts, windows=self.samples.windows("shop", self.now))
        before = self.bench.now
        self.bench.see(facts, STEP_S)
        self.bench.now = before
        self.bench_project()

    def _sample(self, facts: PipelineFacts) -> None:
        for metric, window_s in self.samples.needed:
            for query in facts.queries:
                value = METRICS[metric].read(facts, query)
                self.samples.add(("shop", query.name, metric, window_s), self.now, value)

    def bench_project(self) -> None:
        free = 3 * GB if self.has("disk") else (60 + self.dice.uniform(-3, 3)) * GB
        rows = 2 if self.has("sql") else 0
        sql = SqlResult("hot", self.now, rows=rows, first="city=Bern" if rows else "")
        disks = (Disk("/srv", int(free), int(200 * GB)),)
        self.bench.see(ProjectFacts(self.now, disks, sql={"hot": sql}), STEP_S)

    def _lag(self) -> QueryLag:
        waits_s = 590_000.0 if self.has("loss") else self.dice.uniform(0, 30)
        one = PartitionLag("t", 0, 10, 0, 10 + int(self.behind), waits_s, 604_800.0)
        return QueryLag("shop", KEPT, self.now, (one,))


def iso(at: float) -> str:
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _query(name: str) -> Query:
    trigger = {"kind": "every", "seconds": STEP_S}
    return Query(
        name, "p.py:1", (), {"kind": "parquet"}, "append", trigger, None, "exactly-once", ""
    )


DEFINITION = Definition("shop", "dev", "v1", "shop.py", (), tuple(map(_query, (KEPT, JOINED, BAD))))
