"""A notice as text: subject and lines. Pure."""

from __future__ import annotations

from headrace.model.notices import Notice, NoticeKind
from headrace.model.times import clock

_PREFIX = {
    NoticeKind.TRIGGER: "",
    NoticeKind.ACKNOWLEDGE: "Acknowledged: ",
    NoticeKind.RESOLVE: "Resolved: ",
}


def subject(notice: Notice) -> str:
    about = f"{notice.pipeline}: " if notice.pipeline else ""
    more = f" (and {notice.count - 1:,} more)" if notice.count > 1 else ""
    return f"{_PREFIX[notice.kind]}[{notice.severity}] {about}{notice.title}{more}"


def facts(notice: Notice) -> dict[str, str]:
    """Heading -> text, complete: with the times and the place."""
    about = "/".join(part for part in (notice.pipeline, notice.query) if part)
    times = {"Since": clock(notice.opened_at)}
    if notice.kind == NoticeKind.RESOLVE:
        times["Resolved"] = clock(notice.at)
    return {**times, **notice.facts, **({"Query": about} if about else {}), "Rule": notice.rule}


def lines(notice: Notice) -> list[str]:
    found = [f"{heading}: {text}" for heading, text in facts(notice).items()]
    return [*found, *([notice.link] if notice.link else [])]
