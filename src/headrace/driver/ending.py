"""How a run ended, as `exit.json` will say it: facts gathered from Spark, judged by `failures/`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.driver.fleet import Watched
from headrace.errors import Error, Problems
from headrace.failures.classify import FailureText, classify
from headrace.failures.redact import redact
from headrace.model.runs import Ending, Exit

CAUSES_MAX = 20
TRACE_NAME = "trace.txt"


def of_error(exc: Error, run_dir: Path) -> Exit:
    """The run was refused before or while it started: one of our own errors says why."""
    problems = exc.problems if isinstance(exc, Problems) else (exc,)
    worst = max((p.exit_code for p in problems), default=exc.exit_code)
    ending = Ending.FENCED if worst == 7 else Ending.REFUSED
    return Exit(
        ending=ending,
        code=worst,
        at=time.time(),
        error=problems[0].as_dict() if len(problems) == 1 else exc.as_dict(),
        problems=tuple(p.as_dict() for p in problems),
        failure=problems[0].code,
        fingerprint=problems[0].code,
        trace=_write_trace(run_dir, redact(_python_trace(exc))),
    )


def of_exception(exc: BaseException, run_dir: Path) -> Exit:
    """Something raised that is no error of ours: user code outside a query, or a bug."""
    chain = list(_python_causes(exc))
    text = FailureText(
        error_class=None,
        causes=tuple((type(e).__name__, str(e)) for e in chain),
        trace=_python_trace(exc),
    )
    return _judged(text, run_dir, query=None, batch=None)


def of_query(one: Watched, error_class: str | None, error: str | None, run_dir: Path) -> Exit:
    """A query failed. Spark's Python side says STREAM_FAILED to all, so Java tells the causes."""
    causes, trace = _java_failure(one)
    if error_class is None and error:
        trace = trace or error
    text = FailureText(error_class=error_class, causes=causes, trace=trace)
    return _judged(text, run_dir, query=one.name, batch=one.batch_in_doubt())


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
            "fix": verdict.fix.replace("NAME", _pipeline(run_dir)) if verdict.fix else None,
        },
        query=query,
        batch=batch,
        kind=verdict.kind,
        retries=verdict.retries,
        failure=verdict.slug,
        fingerprint=verdict.fingerprint,
        trace=_write_trace(run_dir, text.trace),
    )


def _pipeline(run_dir: Path) -> str:
    """Run folders are named PIPELINE-TIME-RANDOM."""
    return run_dir.name.rsplit("-", 2)[0]


def _redacted(text: FailureText) -> FailureText:
    """Before anything is judged, stored or shown: the words of an error quote what it met."""
    return FailureText(
        error_class=text.error_class,
        causes=tuple((name, redact(said)) for name, said in text.causes),
        trace=redact(text.trace),
    )


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
