"""A notice as text: subject and lines. Pure."""

from __future__ import annotations

from headrace.model.notices import Notice, NoticeKind
from headrace.model.times import clock


def _prefix(notice: Notice) -> str:
    if notice.kind == NoticeKind.ACKNOWLEDGE:
        return f"Acknowledged by {notice.by}: " if notice.by else "Acknowledged: "
    return "Resolved: " if notice.kind == NoticeKind.RESOLVE else ""


def subject(notice: Notice) -> str:
    is_named = not notice.pipeline or notice.title.startswith(f"{notice.pipeline} ")
    about = "" if is_named else f"{notice.pipeline}: "
    more = f" (and {notice.count - 1:,} more)" if notice.count > 1 else ""
    return f"{_prefix(notice)}[{notice.severity}] {about}{notice.title}{more}"


def facts(notice: Notice) -> dict[str, str]:
    """Heading -> text, complete: with the times and the place. Nothing if a person has acknowledged
    the alert: the first message has all of it."""
    if notice.kind == NoticeKind.ACKNOWLEDGE:
        return {}
    times = {"Since": clock(notice.opened_at)}
    if notice.kind == NoticeKind.RESOLVE:
        times["Resolved"] = clock(notice.at)
    about = "/".join(part for part in (notice.pipeline, notice.query) if part)
    place = {"Query" if notice.query else "Pipeline": about} if about else {}
    return {**times, **notice.facts, **place, "Project": notice.project, "Rule": notice.rule}


def lines(notice: Notice) -> list[str]:
    found = [f"{heading}: {text}" for heading, text in facts(notice).items()]
    return [*found, *([notice.link] if notice.link else [])]
