"""Alert changes as notices. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.alerts import RULE_OF_ROWS
from headrace.model.notices import Notice, NoticeKind
from headrace.model.times import clock, span
from headrace.store.alert_changes import AlertChange
from headrace.store.alerts import StoredAlert

GROUP_FROM = 20  # this many changes of one query at once become one notice
ROW_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender: part of every notice."""

    project: str
    home: str  # of the state folder: keys of two projects never collide
    page: str | None = None  # the address of the page


def next_group(pending: Sequence[AlertChange]) -> list[AlertChange]:
    """The oldest change, with all similar ones if there are many: those of the same query."""
    first = pending[0]
    alike = [change for change in pending if subject(change) == subject(first)]
    return alike if len(alike) >= GROUP_FROM else [first]


def subject(change: AlertChange) -> tuple[NoticeKind, str, str | None, str]:
    """What similar changes have in common."""
    return change.kind, change.alert.pipeline, change.alert.query, change.alert.rule


def notice_key(changes: Sequence[AlertChange], sender: Sender) -> str:
    """The key for a service: that of the alert, or, for a group, of its first change."""
    alert = changes[0].alert
    if len(changes) == 1:
        return f"{sender.home}:{alert.key}"
    return f"{sender.home}:{alert.pipeline}/{alert.query or alert.rule}#{changes[0].id}"


def build_notice(
    changes: Sequence[AlertChange], key: str, sender: Sender, repeated_at: float | None = None
) -> Notice:
    """One notice for these changes, which are of one query and kind."""
    last = changes[-1]
    alert = last.alert
    at = {
        NoticeKind.TRIGGER: last.at if repeated_at is None else repeated_at,
        NoticeKind.ACKNOWLEDGE: alert.acknowledged_at or last.at,
        NoticeKind.RESOLVE: alert.resolved_at or last.at,
    }[last.kind]
    opened_at = min(change.alert.opened_at for change in changes)
    return Notice(
        last.kind,
        key,
        alert.title if last.kind == NoticeKind.ACKNOWLEDGE else last.title,
        alert.severity,
        sender.project,
        alert.pipeline,
        alert.rule,
        opened_at=opened_at,
        at=at,
        query=alert.query,
        facts=_facts(changes, at - opened_at),
        link=_link(changes, sender),
        count=len(changes),
        by=alert.acknowledged_by if last.kind == NoticeKind.ACKNOWLEDGE else None,
    )


def _link(changes: Sequence[AlertChange], sender: Sender) -> str | None:
    """To the alert; of a group, to the list."""
    if sender.page is None:
        return None
    return f"{sender.page}/alerts" + (f"/{changes[0].alert.id}" if len(changes) == 1 else "")


def _facts(changes: Sequence[AlertChange], open_s: float) -> dict[str, str]:
    """Texts by heading, in the order in which a person needs them. When it is over, or when a
    person deals with it, what to do is no longer of interest."""
    kind, alert = changes[-1].kind, changes[-1].alert
    texts = {str(name): str(value) for name, value in alert.data.items()}
    is_row = alert.rule == RULE_OF_ROWS
    row = {"Row": _row_text(texts)} if is_row and texts else {}
    if kind == NoticeKind.RESOLVE:
        return {"Lasted": span(max(0.0, open_s)), **row}
    if kind == NoticeKind.ACKNOWLEDGE:
        return {}
    known = {**row, **_facts_of_row(alert)} if is_row else {**texts, **_find_missing(texts)}
    return {**known, "Acknowledge": _how_to_acknowledge(changes)}


def _row_text(texts: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in texts.items())[:ROW_CHARS]


def _find_missing(texts: dict[str, str]) -> dict[str, str]:
    return {heading: text for heading, text in _UNKNOWN.items() if heading not in texts}


_UNKNOWN = {
    "Headrace": "Keeps the alert open until the problem is over.",
    "What to do": "Open the alert to see what Headrace knows about it.",
}


def _facts_of_row(alert: StoredAlert) -> dict[str, str]:
    """A query wrote it: the rest of the words are in its title and columns."""
    doing = "Counts further rows, and resolves the alert when a row says that it is over"
    if alert.resolve_at is not None:
        doing += f", or at {clock(alert.resolve_at)} if no further row has come"
    return {
        "Headrace": f"{doing}.",
        "What to do": "Check what the row reports. If you deal with it, acknowledge the alert.",
        "Affected outputs": "None: the alert is about the data, not about the pipeline.",
    }


def _how_to_acknowledge(changes: Sequence[AlertChange]) -> str:
    if len(changes) > 1:
        return f"headrace alerts list shows all {len(changes):,} alerts"
    return f"headrace alerts ack {changes[0].alert.id}"
