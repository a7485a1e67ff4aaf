"""Splits failure text into exceptions: JVM traces, Python tracebacks, and nested ones.

A task's failure reaches the driver only as text. An exception in a foreachBatch function is a
Python traceback inside a JVM message, which may contain a JVM trace again.

Invariant: a message never contains stack frames, source lines or the query plan, so that patterns
match the message alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

TEXT_CHARS_MAX = 200_000
MESSAGE_CHARS_MAX = 4_000

_JVM_CLASS = r"(?:[a-z_$][\w$]*\.)+[A-Z][\w$]*"
_JVM_FRAME = re.compile(r"^\s+at \S+\(|^\s+\.\.\. \d+ (?:more|common)|^Driver stacktrace:")
_CAUSED_BY = re.compile(r"^Caused by: (\S+?)(?:: (.*))?$")
_FROM_JVM = re.compile(rf"^: ({_JVM_CLASS})(?:: (.*))?$")
_HEADER = re.compile(
    rf'^(?:Exception in thread "[^"]*" )?({_JVM_CLASS}|[A-Za-z_][\w.]*)(?:: (.*))?$'
)
_TASK = re.compile(rf"executor [\w.-]+\): ({_JVM_CLASS})(?:: |$)", re.M)
_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'^\s*File "(.+?)", line (\d+)(?:, in (.+))?$')
_PYTHON_HEADER = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")
_DIRECT_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_PLAN = "=== Streaming Query ==="
_FOREIGN = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3[.\d]*/|pyspark\.zip/|/py4j-[\w.-]+-src\.zip/"
    r"|/headrace/(?:driver|connectors|transforms|define|testing)/|^<frozen |^<string>$|\.pyx$"
)
_PACKAGE = re.compile(r"(?:/(?:site|dist)-packages/|pyspark\.zip/|-src\.zip/)([\w-]+)[/.]")
_DEPLOYED = re.compile(r"^.*/versions/[^/]+/files/")  # errors name the project's file
_CALLED_FROM = re.compile(r"was called from\s{1,20}(?P<file>\S{1,500}):(?P<line>\d{1,7})")


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class TracePart:
    """One exception: its class, its message, and for Python its place in the user's code."""

    type: str
    message: str
    python: bool = False
    frame: Frame | None = None  # the deepest one in the user's code
    package: str | None = None  # the installed package that raised it

    @property
    def text(self) -> str:
        text = f"{self.type}: {self.message}" if self.type else self.message
        return f"{text}\nraised in {self.package}" if self.package else text


def read(text: str) -> list[TracePart]:
    """The exceptions in a text, outermost first."""
    if len(text) > TEXT_CHARS_MAX:  # the start names the failure, the end its deepest cause
        half = TEXT_CHARS_MAX // 2
        text = text[:half] + "\n" + text[-half:]
    reader = _Reader()
    for line in text.splitlines():
        reader.take(line)
    return [part for draft in reader.drafts for part in _finish(draft)]


@dataclass(slots=True)
class _Draft:
    type: str
    lines: list[str]
    python: bool = False
    frames: list[Frame] = field(default_factory=list)


class _Reader:
    """Reads line by line; `drafts` are the exceptions so far, outermost first."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self._frames: list[Frame] | None = None  # inside a Python traceback
        self._relation = ""  # of the next traceback to the previous one: cause, context
        self._block = 0  # where the current chain of tracebacks begins in `drafts`
        self._skipping = False  # frames or a plan: the last message has ended

    def take(self, line: str) -> None:
        if _JVM_FRAME.match(line):
            self._skipping = True
        elif match := (_CAUSED_BY.match(line) or _FROM_JVM.match(line)):
            self._frames = None
            self._begin(_Draft(match[1], [match[2] or ""]))
        elif line.strip() in (_DIRECT_CAUSE, _CONTEXT):
            self._relation = "cause" if line.strip() == _DIRECT_CAUSE else "context"
        elif _TRACEBACK in line:
            self._begin_traceback(line)
        elif self._frames is not None:
            self._take_traceback(line, self._frames)
        elif _PLAN in line or line.startswith("\tSuppressed: "):
            self._skipping = True
        elif not self.drafts:
            if line.strip():
                self._begin(_first_draft(line))
        elif not self._skipping:
            self.drafts[-1].lines.append(line)

    def _begin(self, draft: _Draft) -> None:
        self.drafts.append(draft)
        self._skipping = False

    def _begin_traceback(self, line: str) -> None:
        before = line.split(_TRACEBACK)[0].strip()
        if before and not self.drafts:
            self._begin(_first_draft(before))
        elif before and not self._skipping:
            self.drafts[-1].lines.append(before)
        if not self._relation:
            self._block = len(self.drafts)
        self._frames = []

    def _take_traceback(self, line: str, frames: list[Frame]) -> None:
        if match := _PYTHON_FRAME.match(line):
            frames.append(Frame(match[1], int(match[2]), match[3] or ""))
        elif line[:1].isspace():
            last = frames[-1] if frames else None
            if last and not last.code and line.strip(" ~^\t"):
                frames[-1] = replace(last, code=line.strip())
        elif match := _PYTHON_HEADER.match(line):
            draft = _Draft(match[1], [match[2] or ""], python=True, frames=frames)
            self._end_traceback(draft)

    def _end_traceback(self, draft: _Draft) -> None:
        """Python prints a cause before its effect; an exception in a handler has no cause."""
        begin = self._block if self._relation else len(self.drafts)
        inner = self.drafts[begin:] if self._relation == "cause" else []
        self.drafts[begin:] = [draft, *inner]
        self._frames, self._relation = None, ""
        # After a cause the last draft is not the new one, so skip further lines of its message.
        self._skipping = self.drafts[-1] is not draft


def _first_draft(line: str) -> _Draft:
    match = _HEADER.match(line)
    return _Draft(match[1], [match[2] or ""]) if match else _Draft("", [line])


def _finish(draft: _Draft) -> list[TracePart]:
    message = "\n".join(draft.lines).strip()[:MESSAGE_CHARS_MAX]
    own = next((f for f in reversed(draft.frames) if not _FOREIGN.search(f.file)), None)
    frame = replace(own, file=_DEPLOYED.sub("", own.file)) if own else None
    package = _PACKAGE.search(draft.frames[-1].file) if draft.frames else None
    outer = TracePart(draft.type, message, draft.python, frame, package[1] if package else None)
    task = _TASK.search(message)  # "Job aborted due to stage failure: … (TID 3) (…): CLASS: …"
    if task is None:
        return [outer]
    return [
        TracePart(draft.type, message[: task.start(1)].rstrip(": "), draft.python, frame),
        TracePart(task[1], message[task.end() :]),
    ]


def find_call_site(message: str) -> str | None:
    """FILE:LINE of the column expression that failed, if Spark names it."""
    match = _CALLED_FROM.search(message)
    return f"{_DEPLOYED.sub('', match['file'])}:{match['line']}" if match else None
