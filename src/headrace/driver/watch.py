"""The loop of a run: look, sample, and end all queries together when one fails or a person asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.driver import ending, session
from headrace.driver.drain import How, drain
from headrace.driver.fleet import Fleet, Watched
from headrace.driver.inputs import Loss
from headrace.driver.sample import Sampler
from headrace.driver.signals import Signals
from headrace.model.events import Kind
from headrace.model.limits import DrainLimits
from headrace.model.runs import Ending, Exit

LOOK_S = 0.1
FAILURE_NEWS_S = 2.0  # how long Spark's listener may be behind the query's own end
DRAIN_AFTER_FAILURE_S = 10.0
POLL_S = 0.02
JVM_GONE_S = 2.0  # from the first failed call to a process that has really ended


@dataclass(slots=True)
class Watch:
    """Everything the loop looks at. `is_open`: more queries may still come (a script runs on)."""

    fleet: Fleet
    signals: Signals
    limits: DrainLimits
    run_dir: Path
    is_open: Callable[[], bool]
    failed_outside: Exit | None = None  # a script's own failure; its queries may still run
    _sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self._sampler = Sampler(self.fleet)

    def until_the_end(self) -> Exit:
        try:
            return self._loop()
        except Exception as exc:  # a border: py4j raises many things once the JVM is gone
            if self._is_jvm_dead(within_s=JVM_GONE_S):
                return self._dead_jvm()
            return ending.of_exception(exc, self.run_dir)

    def _loop(self) -> Exit:
        while True:
            if self._is_jvm_dead():
                return self._dead_jvm()
            if self.signals.is_asked_to_stop():
                return self._drained("asked to stop", self.limits.timeout_s)
            if failed := self._first_failed():
                return self._failed(failed)
            if self.fleet.inputs.loss is not None:
                return self._lost(self.fleet.inputs.loss)
            if self.failed_outside is not None:
                return self._failed_outside(self.failed_outside)
            if not self.is_open() and self._is_all_ended():
                return self._finished()
            if self._sampler.sample():
                self.fleet.note_inactive(time.monotonic())
                self.fleet.look_at_inputs()
            time.sleep(LOOK_S)

    def failed_to_start(self, query: str, exit_: Exit) -> Exit:
        """One query could not be started: those before it are drained, as after any failure."""
        how = self._stop_rest(f"{query} could not be started", DRAIN_AFTER_FAILURE_S)
        return ending.with_queries(replace(exit_, query=query), how)

    def _is_jvm_dead(self, within_s: float = 0.0) -> bool:
        return self.fleet.spark is not None and session.is_jvm_gone(self.fleet.spark, within_s)

    def _dead_jvm(self) -> Exit:
        spark = self.fleet.spark
        process = session.jvm_process(spark) if spark else None
        code = process.poll() if process else None
        return ending.of_dead_jvm(code, self.run_dir / "driver.log", self.run_dir)

    def _first_failed(self) -> Watched | None:
        for one in self.fleet.all():
            error, _ = self.fleet.terminated.get(one.run_id, (None, None))
            if error is not None:
                return one
        return None

    def _is_all_ended(self) -> bool:
        watched = self.fleet.all()
        return all(one.run_id in self.fleet.terminated for one in watched)

    def _failed(self, failed: Watched) -> Exit:
        error, error_class = self.fleet.terminated[failed.run_id]
        exit_ = ending.of_query(failed, error_class, error, self.run_dir)
        how = self._stop_rest(f"{failed.name} failed", DRAIN_AFTER_FAILURE_S)
        return ending.with_queries(exit_, how)

    def _lost(self, loss: Loss) -> Exit:
        exit_ = ending.of_loss(loss, self.run_dir)
        reason = f"input files of {loss.query} have vanished"
        return ending.with_queries(exit_, self._stop_rest(reason, self.limits.timeout_s))

    def _failed_outside(self, exit_: Exit) -> Exit:
        """Mostly the failure of a query, met in awaitTermination: then the query's is the cause."""
        self._await_news([one.run_id for one in self.fleet.all() if not one.query.isActive])
        if failed := self._first_failed():
            return self._failed(failed)
        return ending.with_queries(
            exit_, self._stop_rest("the script failed", DRAIN_AFTER_FAILURE_S)
        )

    def _finished(self) -> Exit:
        how = self._report({one.run_id: "ended" for one in self.fleet.all()})
        return Exit(Ending.FINISHED, code=0, at=time.time(), queries=how)

    def _drained(self, reason: str, timeout_s: float) -> Exit:
        how = self._stop_rest(reason, timeout_s)
        if failed := self._first_failed():  # it failed in the very batch we were waiting for
            error, error_class = self.fleet.terminated[failed.run_id]
            exit_ = ending.of_query(failed, error_class, error, self.run_dir)
            return ending.with_queries(exit_, how)
        is_cut = any(one["how"] == How.CUT for one in how.values())
        kind, code = (Ending.CUT, 1) if is_cut else (Ending.DRAINED, 0)
        return Exit(kind, code=code, at=time.time(), queries=how)

    def _stop_rest(self, reason: str, timeout_s: float) -> dict[str, dict[str, Any]]:
        spark = self.fleet.spark
        self.fleet.is_closed = True
        left = [o.query for o in self.fleet.all() if o.run_id not in self.fleet.terminated]
        self.fleet.events.tell(Kind.DRAIN_STARTED, data={"reason": reason, "deadline_s": timeout_s})
        ended: dict[str, str] = {}
        if spark is not None and left:
            done = drain(
                spark,
                left,
                timeout_s=timeout_s,
                is_hurried=self.signals.is_hurried,
                meanwhile=self._sampler.sample,
            )
            ended = {run_id: str(how) for run_id, how in done.items()}
        self._await_news(list(ended))
        for run_id, (error, _) in self.fleet.terminated.items():
            if error is not None:
                ended[run_id] = "failed"
            else:
                ended.setdefault(run_id, "ended")
        return self._report(ended)

    def _await_news(self, run_ids: list[str]) -> None:
        """Spark tells of an end a moment after it; a failure among them must not be missed."""
        deadline = time.monotonic() + FAILURE_NEWS_S
        while time.monotonic() < deadline:
            if all(run_id in self.fleet.terminated for run_id in run_ids):
                return
            time.sleep(POLL_S)

    def _report(self, ended: dict[str, str]) -> dict[str, dict[str, Any]]:
        self.fleet.outages.end_all()
        report: dict[str, dict[str, Any]] = {}
        for one in self.fleet.all():
            entry = {"batch": one.last_committed(), "how": ended.get(one.run_id, "ended")}
            report[one.name] = entry
            self.fleet.events.tell(Kind.QUERY_STOPPED, one.name, entry)
        return report
