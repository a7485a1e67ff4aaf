"""The main loop of a run: watches and samples the queries, and ends them together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.driver import exit_report
from headrace.driver.drain import DrainResult, drain
from headrace.driver.heartbeat import Sampler
from headrace.driver.running_queries import Queries, RunningQuery
from headrace.driver.signals import Signals
from headrace.model.events import EventKind
from headrace.model.limits import DrainLimits
from headrace.model.runs import Ending, Exit

LOOP_S = 0.1
EVENT_DELAY_S = 2.0  # how long after a query's end Spark's listener may report it
DRAIN_AFTER_FAILURE_S = 10.0
POLL_S = 0.02
JVM_GONE_S = 2.0  # from the first failed call until the process has ended


@dataclass(slots=True)
class RunLoop:
    queries: Queries
    signals: Signals
    limits: DrainLimits
    run_dir: Path
    is_open: Callable[[], bool]  # whether more queries may start (a script is still running)
    failed_outside: Exit | None = None  # a script's own failure; its queries may still run
    _sampler: Sampler = field(init=False)

    def __post_init__(self) -> None:
        self._sampler = Sampler(self.queries)

    def until_the_end(self) -> Exit:
        try:
            return self._loop()
        except Exception as exc:  # a boundary: py4j raises many things once the JVM is gone
            died = exit_report.if_jvm_died(self.queries.spark, self.run_dir, JVM_GONE_S)
            return died or exit_report.from_exception(exc, self.run_dir)

    def _loop(self) -> Exit:
        while True:
            if ended := exit_report.if_jvm_died(self.queries.spark, self.run_dir):
                return ended
            if self.signals.should_stop():
                return self._drain()
            if failed := self._first_failed_query():
                return self._end_after_query_failure(failed)
            if loss := self.queries.inputs.loss:
                reason = f"input files of {loss.query} have vanished"
                exit_ = exit_report.from_input_loss(loss, self.run_dir)
                return self._stop_rest(exit_, reason, self.limits.timeout_s)
            if self.failed_outside is not None:
                return self._end_after_script_failure(self.failed_outside)
            if not self.is_open() and self._has_every_query_ended():
                return self._finish()
            if self._sampler.sample():
                self.queries.note_inactive(time.monotonic())
                self.queries.inspect_inputs()
            time.sleep(LOOP_S)

    def end_after_failed_start(self, query: str, exit_: Exit) -> Exit:
        """A query did not start: drain those before it."""
        reason = f"{query} could not be started"
        return self._stop_rest(replace(exit_, query=query), reason, DRAIN_AFTER_FAILURE_S)

    def _first_failed_query(self) -> RunningQuery | None:
        terminated, queries = self.queries.terminated, self.queries.all()
        return next((q for q in queries if terminated.get(q.run_id, (None,))[0] is not None), None)

    def _has_every_query_ended(self) -> bool:
        return all(query.run_id in self.queries.terminated for query in self.queries.all())

    def _failure(self, failed: RunningQuery) -> Exit:
        error, error_class = self.queries.terminated[failed.run_id]
        return exit_report.from_failed_query(failed, error_class, error, self.run_dir)

    def _end_after_query_failure(self, failed: RunningQuery) -> Exit:
        reason = f"{failed.name} failed"
        return self._stop_rest(self._failure(failed), reason, DRAIN_AFTER_FAILURE_S)

    def _end_after_script_failure(self, exit_: Exit) -> Exit:
        """Usually a failed query made awaitTermination raise; then the query is the cause."""
        inactive = [query for query in self.queries.all() if not query.query.isActive]
        self._await_termination_events([query.run_id for query in inactive])
        if failed := self._first_failed_query():
            return self._end_after_query_failure(failed)
        return self._stop_rest(exit_, "the script failed", DRAIN_AFTER_FAILURE_S)

    def _finish(self) -> Exit:
        return Exit(Ending.FINISHED, code=0, at=time.time(), queries=self._report({}))

    def _drain(self) -> Exit:
        drained = Exit(Ending.DRAINED, code=0, at=time.time())
        drained = self._stop_rest(drained, "asked to stop", self.limits.timeout_s)
        if failed := self._first_failed_query():  # in its last batch
            return replace(self._failure(failed), queries=drained.queries)
        is_cut = any(entry["how"] == DrainResult.CUT for entry in drained.queries.values())
        ending, code = (Ending.CUT, 1) if is_cut else (Ending.DRAINED, 0)
        return replace(drained, ending=ending, code=code, at=time.time())

    def _stop_rest(self, exit_: Exit, reason: str, timeout_s: float) -> Exit:
        """Returns `exit_`, with how each query ended."""
        spark = self.queries.spark
        self.queries.is_closed = True
        terminated = self.queries.terminated
        left = [query.query for query in self.queries.all() if query.run_id not in terminated]
        data = {"reason": reason, "deadline_s": timeout_s}
        self.queries.events.tell(EventKind.DRAIN_STARTED, data=data)
        ended: dict[str, str] = {}
        if spark is not None and left:
            ended |= drain(
                spark,
                left,
                timeout_s=timeout_s,
                is_hurried=self.signals.is_hurried,
                meanwhile=self._sampler.sample,
            )
        self._await_termination_events(list(ended))
        failed = [run_id for run_id, (error, _) in list(terminated.items()) if error is not None]
        ended |= dict.fromkeys(failed, "failed")
        return replace(exit_, queries=self._report(ended))

    def _await_termination_events(self, run_ids: list[str]) -> None:
        """Spark reports an end a moment later, and a failure must not be missed."""
        deadline = time.monotonic() + EVENT_DELAY_S
        while time.monotonic() < deadline:
            if all(run_id in self.queries.terminated for run_id in run_ids):
                return
            time.sleep(POLL_S)

    def _report(self, ended: dict[str, str]) -> dict[str, dict[str, Any]]:
        self.queries.outages.end_all()
        report: dict[str, dict[str, Any]] = {}
        for query in self.queries.all():
            entry = {"batch": query.last_committed_batch(), "how": ended.get(query.run_id, "ended")}
            report[query.name] = entry
            self.queries.events.tell(EventKind.QUERY_STOPPED, query.name, entry)
        return report
