"""What a channel gets: in order, once, grouped, and again after an error. Real SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.alerts.channels import Channel, Route
from headrace.alerts.notices import GROUP_FROM, Sender
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.errors import ConfigError
from headrace.model.alerts import OpenAlert
from headrace.model.notices import Notice, NoticeKind
from headrace.relay.delivery import deliver, repeat
from headrace.store import alert_changes, alerts, db, deliveries

SENDER = Sender("metrics", "home1", "http://127.0.0.1:8321")


class Recorder:
    """Keeps notices; fails first with the given errors."""

    def __init__(self, *errors: BaseException | None) -> None:
        self.got: list[Notice] = []
        self._errors = list(errors)

    def send(self, notice: Notice) -> str:
        self.got.append(notice)
        if self._errors and (error := self._errors.pop(0)):
            raise error
        return "202 accepted"

    @property
    def titles(self) -> list[tuple[str, str]]:
        return [(str(one.kind), one.title) for one in self.got]


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[db.Store]:
    with closing(db.open_alerts(tmp_path / "alerts.db")) as conn:
        for name in ("pager", "team"):
            deliveries.start(conn, name, 0.0)
        yield conn


def open_alert(
    conn: db.Store, key: str, severity: str = "critical", query: str = "hot", at: float = 5.0
) -> None:
    alerts.open_once(conn, OpenAlert(key, "row", "metrics", f"Load of {key}", severity, query), at)


def run(
    conn: db.Store, notifier: Recorder, route: Route | None = None, name: str = "pager"
) -> None:
    channel = Channel(name, "webhook", notifier, route or Route())
    while deliver(conn, channel, SENDER, 1, lambda: 100.0) is not None:
        pass


def states(conn: db.Store, alert: int = 1) -> list[tuple[str, str, int]]:
    return [(one.kind, str(one.state), one.attempts) for one in deliveries.of_alert(conn, alert)]


def test_an_alert_is_sent_once_and_resolved_with_the_same_key(conn: db.Store) -> None:
    pager = Recorder()

    open_alert(conn, "k1")
    run(conn, pager)
    open_alert(conn, "k1")
    run(conn, pager)
    alerts.resolve(conn, "k1", 9.0)
    run(conn, pager)

    assert pager.titles == [("trigger", "Load of k1"), ("resolve", "Load of k1")]
    assert {one.key for one in pager.got} == {"home1:k1"}
    assert pager.got[0].link == "http://127.0.0.1:8321/alerts"
    assert pager.got[1].at == 9.0
    assert states(conn) == [("resolve", "sent", 1), ("trigger", "sent", 1)]


def test_a_crash_between_send_and_record_sends_it_once_more(conn: db.Store) -> None:
    pager = Recorder(KeyboardInterrupt())
    open_alert(conn, "k1")

    with pytest.raises(KeyboardInterrupt):
        run(conn, pager)
    run(conn, pager)
    run(conn, pager)

    assert [one.key for one in pager.got] == ["home1:k1", "home1:k1"]


def test_an_error_keeps_the_order(conn: db.Store) -> None:
    pager = Recorder(DeliveryError("503", retry_after_s=7))
    open_alert(conn, "k1")
    open_alert(conn, "k2")

    with pytest.raises(DeliveryError) as caught:
        run(conn, pager)
    assert caught.value.retry_after_s == 7
    assert states(conn) == [("trigger", "waiting", 1)]
    alerts.resolve(conn, "k1", 9.0)
    run(conn, pager)

    assert pager.titles == [
        ("trigger", "Load of k1"),
        ("trigger", "Load of k1"),
        ("trigger", "Load of k2"),
        ("resolve", "Load of k1"),
    ]


def test_an_alert_that_stays_open_is_sent_again(conn: db.Store) -> None:
    pager = Recorder()
    channel = Channel("pager", "webhook", pager, repeat_s=60)
    open_alert(conn, "k1")
    open_alert(conn, "k2")
    run(conn, pager)

    assert repeat(conn, channel, SENDER, lambda: 150.0) == 0
    alerts.resolve(conn, "k2", 155.0)
    assert repeat(conn, channel, SENDER, lambda: 161.0) == 1
    assert repeat(conn, channel, SENDER, lambda: 162.0) == 0
    assert repeat(conn, channel, SENDER, lambda: 222.0) == 1

    assert [one.key for one in pager.got[2:]] == ["home1:k1", "home1:k1"]
    assert pager.got[2].opened_at == 5.0


def test_a_failed_repetition_does_not_forget_that_the_alert_was_sent(conn: db.Store) -> None:
    pager = Recorder(None, DeliveryError("503"), DeliveryError("400", is_permanent=True))
    channel = Channel("pager", "webhook", pager, repeat_s=60)
    open_alert(conn, "k1")
    run(conn, pager)

    with pytest.raises(DeliveryError):
        repeat(conn, channel, SENDER, lambda: 200.0)
    assert repeat(conn, channel, SENDER, lambda: 201.0) == 1
    alerts.resolve(conn, "k1", 205.0)
    run(conn, pager)

    assert [str(one.kind) for one in pager.got] == ["trigger", "trigger", "trigger", "resolve"]


def test_a_rejected_notice_does_not_hold_up_the_next(conn: db.Store) -> None:
    pager = Recorder(DeliveryError("400 invalid routing key", is_permanent=True))
    open_alert(conn, "k1")
    open_alert(conn, "k2")

    run(conn, pager)
    alerts.resolve(conn, "k1", 9.0)
    run(conn, pager)

    assert pager.titles == [("trigger", "Load of k1"), ("trigger", "Load of k2")]
    assert states(conn) == [("resolve", "skipped", 0), ("trigger", "failed", 1)]
    assert deliveries.of_alert(conn, 1)[1].reply == "400 invalid routing key"


def test_a_missing_secret_waits_for_a_person(conn: db.Store) -> None:
    pager = Recorder(ConfigError("The secret ${env:KEY} is missing."))
    open_alert(conn, "k1")

    with pytest.raises(DeliveryError) as caught:
        run(conn, pager)
    run(conn, pager)

    assert caught.value.retry_after_s == 60
    assert states(conn) == [("trigger", "sent", 1)]


def test_a_new_channel_is_sent_what_is_open(conn: db.Store) -> None:
    late = Recorder()
    for key in ("over1", "open1", "over2", "open2"):
        open_alert(conn, key)
    alerts.resolve(conn, "over1", 9.0)
    alerts.resolve(conn, "over2", 9.0)

    deliveries.start(conn, "late", 10.0)
    run(conn, late, name="late")
    open_alert(conn, "open3")
    deliveries.start(conn, "late", 11.0)
    alerts.resolve(conn, "open1", 12.0)
    run(conn, late, name="late")

    assert late.titles == [
        ("trigger", "Load of open1"),
        ("trigger", "Load of open2"),
        ("trigger", "Load of open3"),
        ("resolve", "Load of open1"),
    ]


def test_a_channel_gets_what_its_route_takes(conn: db.Store) -> None:
    pager, team = Recorder(), Recorder()
    open_alert(conn, "k1", severity="warning")
    open_alert(conn, "k2")
    alerts.resolve(conn, "k1", 9.0)

    run(conn, pager, Route(severity=("critical",)))
    run(conn, team, name="team")

    assert pager.titles == [("trigger", "Load of k2")]
    assert len(team.got) == 3
    assert alert_changes.read(conn, deliveries.reader("pager"), 10) == []


def test_an_alert_that_becomes_critical_reaches_the_channel_for_critical_alerts(
    conn: db.Store,
) -> None:
    pager, team = Recorder(), Recorder()
    open_alert(conn, "k1", severity="warning")
    run(conn, pager, Route(severity=("critical",)))
    run(conn, team, name="team")

    open_alert(conn, "k1", severity="critical", at=6.0)
    open_alert(conn, "k1", severity="critical", at=7.0)
    alerts.resolve(conn, "k1", 9.0)
    run(conn, pager, Route(severity=("critical",)))
    run(conn, team, name="team")

    assert [(one.kind, one.severity) for one in pager.got] == [
        (NoticeKind.TRIGGER, "critical"), (NoticeKind.RESOLVE, "critical"),
    ]  # fmt: skip
    assert [(one.kind, one.severity) for one in team.got] == [
        (NoticeKind.TRIGGER, "warning"),
        (NoticeKind.TRIGGER, "critical"),
        (NoticeKind.RESOLVE, "critical"),
    ]
    assert len({one.key for one in (*pager.got, *team.got)}) == 1
    changes = alert_changes.read(conn, alert_changes.EVENTS, 10)
    assert [change.is_escalation for change in changes] == [False, True, False]


def test_an_alert_that_became_milder_is_resolved_where_it_was_sent(conn: db.Store) -> None:
    pager, route = Recorder(), Route(severity=("critical",))
    open_alert(conn, "k1", severity="critical")
    run(conn, pager, route)

    open_alert(conn, "k1", severity="warning")
    alerts.resolve(conn, "k1", 9.0)
    run(conn, pager, route)

    assert pager.titles == [("trigger", "Load of k1"), ("resolve", "Load of k1")]


def test_an_alert_of_a_group_keeps_its_key_when_it_becomes_critical(conn: db.Store) -> None:
    pager = Recorder()
    for number in range(GROUP_FROM):
        open_alert(conn, f"k{number}", severity="warning")
    run(conn, pager)
    open_alert(conn, "k3", severity="critical")
    run(conn, pager)
    for number in range(GROUP_FROM):
        alerts.resolve(conn, f"k{number}", 9.0)
    run(conn, pager)

    assert [str(one.kind) for one in pager.got] == ["trigger", "trigger", "resolve"]
    assert len({one.key for one in pager.got}) == 1


def test_an_alert_that_was_sent_twice_is_repeated_once(conn: db.Store) -> None:
    pager = Recorder()
    channel = Channel("pager", "webhook", pager, repeat_s=50.0)
    open_alert(conn, "k1", severity="warning")
    run(conn, pager)
    open_alert(conn, "k1", severity="critical")
    run(conn, pager)

    assert repeat(conn, channel, SENDER, lambda: 149.0) == 0
    assert repeat(conn, channel, SENDER, lambda: 151.0) == 1
    assert [one.severity for one in pager.got] == ["warning", "critical", "critical"]
    assert repeat(conn, channel, SENDER, lambda: 199.0) == 0


@pytest.mark.thorough
def test_ten_thousand_keys_are_a_few_notices_and_a_resolve_each(conn: db.Store) -> None:
    pager = Recorder()
    with db.transaction(conn):
        for number in range(10_000):
            open_alert(conn, f"k{number}")
    open_alert(conn, "other", query="cold")

    run(conn, pager)

    assert len(pager.got) == 11
    assert sum(one.count for one in pager.got) == 10_001
    assert len({one.key for one in pager.got}) == 11
    with db.transaction(conn):
        for number in range(9_999):
            alerts.resolve(conn, f"k{number}", 9.0)
    run(conn, pager)
    assert len(pager.got) == 11 + 9, "one group has an open alert"
    alerts.resolve(conn, "k9999", 9.0)
    run(conn, pager)

    assert [one.kind for one in pager.got[11:]] == [NoticeKind.RESOLVE] * 10
    groups = {one.key for one in pager.got[:11] if one.count > 1}
    assert {one.key for one in pager.got[11:]} == groups
    assert len(pager.got) == 21


@pytest.mark.thorough
def test_an_outage_of_ten_minutes_misses_nothing_and_sends_nothing_twice(conn: db.Store) -> None:
    """A hundred conditions of ten queries; an attempt every three seconds."""
    now = 0.0
    accepted: list[Notice] = []

    class Flaky:
        def send(self, notice: Notice) -> str:
            if now < 600:
                raise DeliveryError("connection refused")
            accepted.append(notice)
            return "ok"

    channel = Channel("pager", "webhook", Flaky())
    clock: Callable[[], float] = lambda: now  # noqa: E731
    while now < 900:  # three seconds at a time
        number = int(now) // 6
        if now % 6 == 0 and number < 100:
            open_alert(conn, f"k{number}", query=f"q{number % 10}")
        if now % 6 == 3 and number < 100 and number % 2:
            alerts.resolve(conn, f"k{number}", now)
        try:
            while deliver(conn, channel, SENDER, 1, clock) is not None:
                pass
        except DeliveryError:
            pass
        now += 3

    opened = [one for one in accepted if one.kind == NoticeKind.TRIGGER]
    closed = [one for one in accepted if one.kind == NoticeKind.RESOLVE]
    assert sorted(one.key for one in opened) == sorted(f"home1:k{n}" for n in range(100))
    assert sorted(one.key for one in closed) == sorted(f"home1:k{n}" for n in range(1, 100, 2))
    for one in closed:
        before = accepted[: accepted.index(one)]
        assert any(o.key == one.key and o.kind == NoticeKind.TRIGGER for o in before)


def test_secrets_are_hidden_in_the_delivery_log(
    conn: db.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace import secrets

    secrets.remember("planted-key-123")
    open_alert(conn, "k1")

    run(conn, Recorder(DeliveryError("bad key planted-key-123", is_permanent=True)))

    assert "planted" not in deliveries.of_alert(conn, 1)[0].reply
