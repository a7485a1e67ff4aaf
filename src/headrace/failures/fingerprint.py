"""A fingerprint that identifies a failure across runs.

The three-failures rule and alerts compare fingerprints. So a fingerprint ignores values that differ
between runs (ids, times, offsets, temporary names, which bad value came first) and keeps those that
distinguish failures (the exception, a column's name, the line of code).
"""

from __future__ import annotations

import hashlib
import re

from headrace.failures.stack_trace import Frame

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\s*SQLSTATE: \w{5}", ""),
        # Which bad value comes first depends on which task was faster.
        (r"(The value )(?:'[^'\n]*'|\"[^\"\n]*\")", r"\1*"),
        (r"(Text )'[^'\n]*'( could not be parsed)", r"\1*\2"),
        (r"(record parsing: ).*?(\. Parse Mode)", r"\1*\2"),
        (r"(with base \d+: |string to float: |isoformat string: |time data )'[^'\n]*'", r"\1*"),
        (r"(Key \([^)]*\)=)\([^)\n]*\)", r"\1*"),
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "#"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", "#"),
        (r"(/tmp|/var/tmp|/var/folders/[^/\s]+/[^/\s]+/T)/[^/\s'\"]+", r"\1/#"),
        (r"\btmp[a-z0-9_]{8}\b", "#"),
        (r"0x[0-9a-fA-F]+", "#"),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "#"),
        (r"@[0-9a-f]{4,8}\b", "@#"),  # Object.toString of the JVM
        (r"\b(o|TID |stage |task )\d+(?:\.\d+)?", r"\1#"),  # o275.collectToPython
        (r"(?<![A-Za-z_\d])\d+(?:[.,:]\d+)*", "#"),  # load10 and load11 are different columns
        (r"\s+", " "),
    )
)


def normalise(message: str) -> str:
    for pattern, by in _RULES:
        message = pattern.sub(by, message)
    return message.strip()


def fingerprint(slug: str, exception: str, message: str, frame: Frame | None) -> str:
    # The text of the source line, not its number, which changes with edits elsewhere in the file.
    place = (frame.file, frame.function, frame.code or str(frame.line)) if frame else ()
    text = "\0".join((slug, exception, normalise(message), *place))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
