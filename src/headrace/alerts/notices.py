"""Alert changes as notices. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.alerts import RULE_OF_ROWS
from headrace.model.notices import Notice, NoticeKind
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
    alike = [change for change in pending if _subject(change) == _subject(first)]
    return alike if len(alike) >= GROUP_FROM else [first]


def _subject(change: AlertChange) -> tuple[NoticeKind, str, str | None, str]:
    return change.kind, change.alert.pipeline, change.alert.query, change.alert.rule


def notice_key(changes: Sequence[AlertChange], sender: Sender) -> str:
    """The key for a service: that of the alert, or, for a group, of its first change."""
    alert = changes[0].alert
    if len(changes) == 1:
        return f"{sender.home}:{alert.key}"
    return f"{sender.home}:{alert.pipeline}/{alert.query or alert.rule}#{changes[0].id}"


def build_notice(changes: Sequence[AlertChange], key: str, sender: Sender) -> Notice:
    """One notice for these changes, which are of one query and kind."""
    last = changes[-1]
    alert = last.alert
    return Notice(
        last.kind,
        key,
        last.title,
        alert.severity,
        sender.project,
        alert.pipeline,
        alert.rule,
        opened_at=min(change.alert.opened_at for change in changes),
        at=alert.resolved_at or last.at if last.kind == NoticeKind.RESOLVE else last.at,
        query=alert.query,
        facts=_facts(alert),
        link=f"{sender.page}/alerts" if sender.page else None,
        count=len(changes),
    )


def _facts(alert: StoredAlert) -> dict[str, str]:
    """Rules store texts by heading; of a row, all columns are one text."""
    texts = {str(name): str(value) for name, value in alert.data.items()}
    if alert.rule != RULE_OF_ROWS or not texts:
        return texts
    return {"Row": ", ".join(f"{name}={value}" for name, value in texts.items())[:ROW_CHARS]}
