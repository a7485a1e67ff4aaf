"""How a run ended, as `exit.json` will say it: facts gathered from Spark, judged by `failures/`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace import references
from headrace.driver.fleet import Watched
from headrace.driver.inputs import Loss
from headrace.errors import Error, FencedError, each_of
from headrace.failures.classify import FailureText, Verdict, classify
from headrace.failures.entry import Kind
from headrace.failures.redact import redact
from headrace.model.runs import Ending, Exit, pipeline_of

CAUSES_MAX = 20
TRACE_NAME = "trace.txt"


def of_error(exc: Error, run_dir: Path) -> Exit:
    """The run was refused before or while it started: one of our own errors says why.

    Behind it may be something that goes away by itself, as a database that was down while a table
    was read: then it is tried again, like any failure of that kind.
    """
    problems = each_of(exc)
    worst = max((p.exit_code for p in problems), default=exc.exit_code)
    passing = [_passing(problem) for problem in problems]
    verdict = passing[0] if all(passing) else None
    told = tuple(_told(problem) for problem in problems)
    return Exit(
        ending=Ending.FENCED if worst == FencedError.exit_code else Ending.REFUSED,
        code=worst,
        at=time.time(),
        error=told[0] if len(told) == 1 else exc.as_dict(),
        problems=told,
        kind=verdict.kind if verdict else None,
        retries=verdict.retries if verdict else None,
        failure=problems[0].code,
        fingerprint=verdict.fingerprint if verdict else problems[0].code,
        trace=_write_trace(run_dir, _clean(_python_trace(exc))),
    )


def _passing(problem: Error) -> Verdict | None:
    """The verdict on what is behind an error of ours, if it is of a kind that may go away."""
    cause = problem.__cause__
    if cause is None or isinstance(cause, Error):
        return None
    verdict = classify(_redacted(_python_text(cause)))
    return verdict if verdict.kind in (Kind.RETRY, Kind.RETRY_THEN_HUMAN) else None


def _told(problem: Error) -> dict[str, str | None]:
    return {name: _clean(text) if text else text for name, text in problem.as_dict().items()}


def _python_text(exc: BaseException) -> FailureText:
    causes = tuple((type(e).__name__, str(e)) for e in _python_causes(exc))
    return FailureText(error_class=None, causes=causes, trace=_python_trace(exc))


def of_exception(exc: BaseException, run_dir: Path) -> Exit:
    """Something raised that is no error of ours: user code outside a query, or a bug."""
    if isinstance(exc, Error):
        return of_error(exc, run_dir)
    return _judged(_python_text(exc), run_dir, query=None, batch=None)


def of_query(one: Watched, error_class: str | None, error: str | None, run_dir: Path) -> Exit:
    """A query failed. Spark's Python side says STREAM_FAILED to all, so Java tells the causes."""
    causes, trace = _java_failure(one)
    if error_class is None and error:
        trace = trace or error
    text = FailureText(error_class=error_class, causes=causes, trace=trace)
    return _judged(text, run_dir, query=one.name, batch=one.batch_in_doubt())


def of_loss(loss: Loss, run_dir: Path) -> Exit:
    """A batch was committed without files that it should have read: Spark itself goes on."""
    files = f"{loss.count} file{'s' * (loss.count != 1)} of batch {loss.batch}"
    named = "\n".join(loss.files)
    causes = (("headrace.InputVanished", f"{files}: {loss.files[0] if loss.files else ''}"),)
    text = FailureText(None, causes, f"{files} vanished before they were read:\n{named}\n")
    return _judged(text, run_dir, query=loss.query, batch=loss.batch)


def of_dead_jvm(code: int | None, log: Path, run_dir: Path) -> Exit:
    """The JVM is gone under a living Python: killed, out of memory, or crashed."""
    tail = _tail(log)
    said = f"Answer from Java side is empty: the JVM ended with exit code {code}"
    causes = (("py4j.protocol.Py4JNetworkError", said),)
    if "java.lang.OutOfMemoryError" in tail:
        causes = (("java.lang.OutOfMemoryError", "the JVM ended itself: its heap was full"),)
    return _judged(FailureText(None, causes, tail), run_dir, query=None, batch=None)


def _judged(text: FailureText, run_dir: Path, *, query: str | None, batch: int | None) -> Exit:
    text = _redacted(text)
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


def _redacted(text: FailureText) -> FailureText:
    """Before anything is judged, stored or shown: the words of an error quote what it met."""
    return FailureText(
        error_class=text.error_class,
        causes=tuple((name, _clean(said)) for name, said in text.causes),
        trace=_clean(text.trace),
    )


def _clean(text: str) -> str:
    return redact(text, references.resolved())


def with_queries(exit_: Exit, queries: Mapping[str, Mapping[str, Any]]) -> Exit:
    return Exit.from_json({**exit_.to_json(), "queries": dict(queries)})


def _java_failure(one: Watched) -> tuple[tuple[tuple[str, str], ...], str]:
    found = one.query._jsq.exception()
    if found.isEmpty():
        return (), ""
    exc = found.get()
    causes: list[tuple[str, str]] = []
    cause: Any = exc
    while cause is not None and len(causes) < CAUSES_MAX:
        causes.append((cause.getClass().getName(), cause.getMessage() or ""))
        cause = cause.getCause()
    return tuple(causes), exc.toString()


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
