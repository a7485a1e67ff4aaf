"""How a run ended, for `exit.json`: facts collected from Spark, classified by `failures/`."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import secrets
from headrace.driver import session
from headrace.driver.changed_files import InputLoss
from headrace.driver.running_queries import RunningQuery
from headrace.errors import Error, each_of
from headrace.failures.catalogue_entry import FailureKind
from headrace.failures.classifier import Classification, FailureText, classify
from headrace.failures.redaction import redact
from headrace.model.runs import Ending, Exit, pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAUSES_MAX = 20
TRACE_NAME = "trace.txt"
_PLAN = "=== Streaming Query ==="


def from_error(exc: Error, run_dir: Path) -> Exit:
    """One of our own errors stopped the run at its start. The run is retried if all problems have a
    transient cause, such as a database that is down."""
    problems = each_of(exc)
    transient = [_classify_cause(problem) for problem in problems]
    verdict = transient[0] if all(transient) else None
    redacted = tuple(
        {name: _clean(text) if text else text for name, text in problem.as_dict().items()}
        for problem in problems
    )
    return Exit(
        ending=Ending.REFUSED,
        code=max((p.exit_code for p in problems), default=exc.exit_code),
        at=time.time(),
        error=redacted[0] if len(redacted) == 1 else exc.as_dict(),
        problems=redacted,
        kind=verdict.kind if verdict else None,
        retries=verdict.retries if verdict else None,
        failure=problems[0].code,
        fingerprint=verdict.fingerprint if verdict else problems[0].code,
        trace=_write_trace(run_dir, _clean(_python_trace(exc))),
    )


def _classify_cause(problem: Error) -> Classification | None:
    """The class of the error's cause, if it is worth a retry."""
    cause = problem.__cause__
    if cause is None or isinstance(cause, Error):
        return None
    verdict = classify(redact_failure(_python_text(cause)))
    return verdict if verdict.kind in (FailureKind.RETRY, FailureKind.RETRY_THEN_HUMAN) else None


def _python_text(exc: BaseException) -> FailureText:
    causes = tuple((type(e).__name__, str(e)) for e in _python_causes(exc))
    return FailureText(error_class=None, causes=causes, trace=_python_trace(exc))


def from_exception(exc: BaseException, run_dir: Path) -> Exit:
    """User code outside a query raised, or a bug of ours."""
    if isinstance(exc, Error):
        return from_error(exc, run_dir)
    return _exit_from_failure(_python_text(exc), run_dir, query=None, batch=None)


def from_failed_query(
    query: RunningQuery, error_class: str | None, error: str | None, run_dir: Path
) -> Exit:
    """A query failed. PySpark only says STREAM_FAILED, so the causes come from the JVM."""
    failure = query.query._jsq.exception()
    causes, summary = ((), "") if failure.isEmpty() else java_causes(failure.get())
    # Spark's summary has the message and the plan, but no stack: the event has it.
    trace = f"{error}\n{summary[summary.find(_PLAN) :]}" if error and _PLAN in summary else error
    text = FailureText(error_class=error_class, causes=causes, trace=trace or summary)
    return _exit_from_failure(text, run_dir, query=query.name, batch=query.batch_in_doubt())


def java_causes(exc: Any) -> tuple[tuple[tuple[str, str], ...], str]:
    """Class and message of a Java exception and of its causes, and its text."""
    causes: list[tuple[str, str]] = []
    cause = exc
    while cause is not None and len(causes) < CAUSES_MAX:
        causes.append((cause.getClass().getName(), cause.getMessage() or ""))
        cause = cause.getCause()
    return tuple(causes), exc.toString()


def from_input_loss(loss: InputLoss, run_dir: Path) -> Exit:
    """A batch was committed without files that it should have read. Spark would go on."""
    files = f"{loss.count} file{'s' * (loss.count != 1)} of batch {loss.batch}"
    named = "\n".join(loss.files)
    causes = (("headrace.InputVanished", f"{files}: {loss.files[0] if loss.files else ''}"),)
    text = FailureText(None, causes, f"{files} vanished before they were read:\n{named}\n")
    return _exit_from_failure(text, run_dir, query=loss.query, batch=loss.batch)


def if_jvm_died(spark: SparkSession | None, run_dir: Path, within_s: float = 0.0) -> Exit | None:
    if spark is None or not session.is_jvm_gone(spark, within_s):
        return None
    return from_dead_jvm(session.jvm_process(spark).poll(), run_dir)


def from_dead_jvm(code: int | None, run_dir: Path) -> Exit:
    """The JVM was killed, ran out of memory, or crashed."""
    tail = _tail(run_dir / "driver.log")
    message = f"Answer from Java side is empty: the JVM exited with code {code}"
    causes = (("py4j.protocol.Py4JNetworkError", message),)
    if "java.lang.OutOfMemoryError" in tail:
        causes = (("java.lang.OutOfMemoryError", "the JVM exited: its heap was full"),)
    return _exit_from_failure(FailureText(None, causes, tail), run_dir, query=None, batch=None)


def _exit_from_failure(
    text: FailureText, run_dir: Path, *, query: str | None, batch: int | None
) -> Exit:
    text = redact_failure(text)
    verdict = classify(text)
    return Exit(
        ending=Ending.FAILED,
        code=1,
        at=time.time(),
        error={
            "slug": verdict.slug,
            "what": verdict.what,
            "why": verdict.why,
            "where": verdict.where,
            "fix": verdict.fix.replace("NAME", pipeline_of(run_dir.name)) if verdict.fix else None,
        },
        query=query,
        batch=batch,
        kind=verdict.kind,
        retries=verdict.retries,
        failure=verdict.slug,
        fingerprint=verdict.fingerprint,
        trace=_write_trace(run_dir, text.trace),
    )


def redact_failure(text: FailureText) -> FailureText:
    """Call it before anything is stored or shown: error texts may quote secrets."""
    return FailureText(
        error_class=text.error_class,
        causes=tuple((name, _clean(message)) for name, message in text.causes),
        trace=_clean(text.trace),
    )


def _clean(text: str) -> str:
    return redact(text, secrets.resolved_values())


def _python_causes(exc: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = exc
    while current is not None and len(chain) < CAUSES_MAX:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def _python_trace(exc: BaseException) -> str:
    return "".join(traceback.format_exception(exc))


def _write_trace(run_dir: Path, text: str) -> str | None:
    path = run_dir / TRACE_NAME
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError:
        return None  # a full disk must not hide the failure itself
    return str(path)


def _tail(log: Path, size: int = 64 * 1024) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - size))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
