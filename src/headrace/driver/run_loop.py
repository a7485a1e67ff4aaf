"""The main loop of a run: watches and samples the queries, and ends them together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.driver import exit_report, session
from headrace.driver.drain import DrainResult, drain
from headrace.driver.heartbeat import Sampler
from headrace.driver.input_files import InputLoss
from headrace.driver.queries import Queries, RunningQuery
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
        except Exception as exc:  # a border: py4j raises many things once the JVM is gone
            return self._end_if_jvm_died(JVM_GONE_S) or exit_report.from_exception(
                exc, self.run_dir
            )

    def _loop(self) -> Exit:
        while True:
            if ended := self._end_if_jvm_died():
                return ended
            if self.signals.should_stop():
                return self._drain("asked to stop", self.limits.timeout_s)
            if failed := self._first_failed_query():
                return self._end_after_query_failure(failed)
            if self.queries.inputs.loss is not None:
                return self._end_after_input_loss(self.queries.inputs.loss)
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
        report = self._stop_rest(f"{query} could not be started", DRAIN_AFTER_FAILURE_S)
        return replace(exit_, query=query, queries=report)

    def _end_if_jvm_died(self, within_s: float = 0.0) -> Exit | None:
        spark = self.queries.spark
        if spark is None or not session.is_jvm_gone(spark, within_s):
            return None
        return exit_report.from_dead_jvm(session.jvm_process(spark).poll(), self.run_dir)

    def _first_failed_query(self) -> RunningQuery | None:
        for query in self.queries.all():
            error, _ = self.queries.terminated.get(query.run_id, (None, None))
            if error is not None:
                return query
        return None

    def _has_every_query_ended(self) -> bool:
        return all(query.run_id in self.queries.terminated for query in self.queries.all())

    def _failure(self, failed: RunningQuery) -> Exit:
        error, error_class = self.queries.terminated[failed.run_id]
        return exit_report.from_failed_query(failed, error_class, error, self.run_dir)

    def _end_after_query_failure(self, failed: RunningQuery) -> Exit:
        exit_ = self._failure(failed)
        report = self._stop_rest(f"{failed.name} failed", DRAIN_AFTER_FAILURE_S)
        return replace(exit_, queries=report)

    def _end_after_input_loss(self, loss: InputLoss) -> Exit:
        exit_ = exit_report.from_input_loss(loss, self.run_dir)
        reason = f"input files of {loss.query} have vanished"
        return replace(exit_, queries=self._stop_rest(reason, self.limits.timeout_s))

    def _end_after_script_failure(self, exit_: Exit) -> Exit:
        """Most often a failed query made awaitTermination raise. Then the query is the cause."""
        inactive = [query for query in self.queries.all() if not query.query.isActive]
        self._await_termination_events([query.run_id for query in inactive])
        if failed := self._first_failed_query():
            return self._end_after_query_failure(failed)
        report = self._stop_rest("the script failed", DRAIN_AFTER_FAILURE_S)
        return replace(exit_, queries=report)

    def _finish(self) -> Exit:
        report = self._report({query.run_id: "ended" for query in self.queries.all()})
        return Exit(Ending.FINISHED, code=0, at=time.time(), queries=report)

    def _drain(self, reason: str, timeout_s: float) -> Exit:
        report = self._stop_rest(reason, timeout_s)
        if failed := self._first_failed_query():  # in its last batch
            return replace(self._failure(failed), queries=report)
        is_cut = any(entry["how"] == DrainResult.CUT for entry in report.values())
        kind, code = (Ending.CUT, 1) if is_cut else (Ending.DRAINED, 0)
        return Exit(kind, code=code, at=time.time(), queries=report)

    def _stop_rest(self, reason: str, timeout_s: float) -> dict[str, dict[str, Any]]:
        spark = self.queries.spark
        self.queries.is_closed = True
        terminated = self.queries.terminated
        left = [query.query for query in self.queries.all() if query.run_id not in terminated]
        self.queries.events.tell(
            EventKind.DRAIN_STARTED, data={"reason": reason, "deadline_s": timeout_s}
        )
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
        self._await_termination_events(list(ended))
        for run_id, (error, _) in self.queries.terminated.items():
            if error is not None:
                ended[run_id] = "failed"
            else:
                ended.setdefault(run_id, "ended")
        return self._report(ended)

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
