"""What a channel gets: in order, once, grouped, and again after an error. Real SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace import secrets
from headrace.alerts.channels import Channel, Route
from headrace.alerts.message_text import subject as subject_of
from headrace.alerts.notices import GROUP_FROM, Sender
from headrace.alerts.notifiers.notifier import DeliveryError
from headrace.errors import ConfigError
from headrace.model.alerts import OpenAlert
from headrace.model.notices import Notice, NoticeKind
from headrace.relay.delivery import deliver, deliver_after_silence, repeat
from headrace.relay.throttle import Throttle
from headrace.store import alert_changes, alerts, db, deliveries, silences
from headrace.store.silences import Silence

PAGE = "http://127.0.0.1:8321"
SENDER = Sender("metrics", "home1", PAGE)


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
    assert pager.got[0].link == "http://127.0.0.1:8321/alerts/1"
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
def test_ten_thousand_keys_at_once_are_one_notice_and_one_resolve(conn: db.Store) -> None:
    pager = Recorder()
    with db.transaction(conn):
        for number in range(10_000):
            open_alert(conn, f"k{number}")
    open_alert(conn, "other", query="cold")

    run(conn, pager)

    flood, other = pager.got
    assert (flood.count, other.count) == (10_000, 1)
    assert subject_of(flood) == "[critical] metrics: Load of k9999 (and 9,999 more)"
    assert (flood.link, other.link) == (PAGE + "/alerts", PAGE + "/alerts/10001")
    with db.transaction(conn):
        for number in range(9_999):
            alerts.resolve(conn, f"k{number}", 9.0)
    run(conn, pager)
    assert len(pager.got) == 2, "one alert of the group is open"
    alerts.resolve(conn, "k9999", 9.0)
    run(conn, pager)

    assert [(one.kind, one.key) for one in pager.got[2:]] == [(NoticeKind.RESOLVE, flood.key)]


@pytest.mark.thorough
def test_ten_thousand_keys_within_a_minute_are_a_few_notices(conn: db.Store) -> None:
    """Without a flood, each alert is sent at once; in a flood, the rest are one notice."""
    now = 0.0
    clock: Callable[[], float] = lambda: now  # noqa: E731
    pager, throttle = Recorder(), Throttle(clock)
    channel = Channel("pager", "webhook", pager)

    for second in range(130):
        now = float(second)
        with db.transaction(conn):
            for number in range(167 if second < 60 else 0):
                if number < 2 or second > 0:
                    open_alert(conn, f"k{second}-{number}", at=now)
        while deliver(conn, channel, SENDER, 1, clock, throttle) is not None:
            pass
        if second == 30:
            open_alert(conn, "other", query="cold", at=now)

    counts = [one.count for one in pager.got if one.query == "hot"]
    assert counts[:2] == [1, 1], "the first ones are sent at once"
    assert sum(counts) == 59 * 167 + 2
    assert len(counts) <= GROUP_FROM + 2
    (other,) = [one for one in pager.got if one.query == "cold"]
    assert other.opened_at == 30.0
    before = pager.got[: pager.got.index(other)]
    assert sum(one.count for one in before) < 5_200, "another query does not wait for the flood"


def test_a_flood_keeps_the_order_of_changes_of_an_alert(conn: db.Store) -> None:
    now = 0.0
    pager, throttle = Recorder(), Throttle(lambda: now)
    channel = Channel("pager", "webhook", pager)

    def run_throttled() -> None:
        while deliver(conn, channel, SENDER, 1, lambda: now, throttle) is not None:
            pass

    for number in range(GROUP_FROM + 2):
        open_alert(conn, f"k{number}", at=now)
        run_throttled()
    alerts.resolve(conn, f"k{GROUP_FROM}", 5.0)  # waits with its alert
    alerts.resolve(conn, "k0", 5.0)
    run_throttled()
    assert len(pager.got) == GROUP_FROM + 1
    assert pager.titles[-1] == ("resolve", "Load of k0")
    now = 61.0
    run_throttled()

    assert pager.titles[GROUP_FROM + 1 :] == [
        ("trigger", f"Load of k{GROUP_FROM}"),
        ("trigger", f"Load of k{GROUP_FROM + 1}"),
        ("resolve", f"Load of k{GROUP_FROM}"),
    ]


def silence(conn: db.Store, until: float = 200.0, pipeline: str = "metrics") -> int:
    one = Silence(0, pipeline, None, "*", "upgrade of the database", "ann", 0.0, until)
    return silences.add(conn, one)


def after_silence(conn: db.Store, notifier: Recorder, at: float) -> int | None:
    channel = Channel("pager", "webhook", notifier)
    return deliver_after_silence(conn, channel, SENDER, 1, lambda: at)


def test_a_silenced_alert_is_not_sent_and_the_log_says_why(conn: db.Store) -> None:
    pager = Recorder()
    silence(conn)

    open_alert(conn, "k1")
    run(conn, pager)
    assert states(conn) == [("trigger", "silenced", 0)]
    alerts.resolve(conn, "k1", 90.0)
    run(conn, pager)

    assert pager.got == []
    assert states(conn) == [("resolve", "skipped", 0), ("trigger", "skipped", 0)]
    why = deliveries.of_alert(conn, 1)[1].reply
    assert why == "silenced by ann until 1970-01-01 00:03:20Z: upgrade of the database"
    assert after_silence(conn, pager, 300.0) is None


def test_an_alert_that_outlasts_its_silence_is_sent_once_at_its_end(conn: db.Store) -> None:
    pager = Recorder()
    silence(conn)
    open_alert(conn, "k1", severity="warning")
    open_alert(conn, "other", query="cold")
    alerts.resolve(conn, "other", 20.0)
    run(conn, pager)
    open_alert(conn, "k1", severity="critical")
    run(conn, pager)

    assert after_silence(conn, pager, 199.0) is None
    assert after_silence(conn, pager, 200.0) == 1
    assert after_silence(conn, pager, 200.0) is None
    alerts.resolve(conn, "k1", 300.0)
    run(conn, pager)

    assert [(str(one.kind), one.severity) for one in pager.got] == [
        ("trigger", "critical"), ("resolve", "critical"),
    ]  # fmt: skip
    assert [state for _, state, _ in states(conn)] == ["sent", "sent", "skipped"]


def test_ending_a_silence_sends_what_is_open_as_one_group(conn: db.Store) -> None:
    pager = Recorder(DeliveryError("503"))
    number = silence(conn)
    for key in range(GROUP_FROM):
        open_alert(conn, f"k{key}")
    run(conn, pager)

    silences.end(conn, number, 50.0)
    with pytest.raises(DeliveryError):
        after_silence(conn, pager, 51.0)
    assert after_silence(conn, pager, 52.0) == 1
    assert after_silence(conn, pager, 52.0) is None

    assert [one.count for one in pager.got] == [GROUP_FROM, GROUP_FROM]
    assert {one.key for one in pager.got} == {pager.got[0].key}


def test_an_alert_that_was_sent_before_its_silence_is_resolved_at_the_service(
    conn: db.Store,
) -> None:
    pager = Recorder()
    open_alert(conn, "k1", severity="warning")
    run(conn, pager)
    silence(conn)
    open_alert(conn, "k1", severity="critical")
    run(conn, pager)
    alerts.resolve(conn, "k1", 20.0)
    run(conn, pager)

    assert [(str(one.kind), one.severity) for one in pager.got] == [
        ("trigger", "warning"), ("resolve", "critical"),
    ]  # fmt: skip


def test_a_silence_of_another_pipeline_changes_nothing(conn: db.Store) -> None:
    pager = Recorder()
    silence(conn, pipeline="other*")
    silence(conn, until=99.0)  # over

    open_alert(conn, "k1")
    run(conn, pager)

    assert len(pager.got) == 1


def test_a_silenced_or_acknowledged_alert_is_not_repeated(conn: db.Store) -> None:
    pager = Recorder()
    channel = Channel("pager", "webhook", pager, repeat_s=60)
    for key in ("silenced", "acknowledged", "open"):
        open_alert(conn, key, query=key)
    run(conn, pager)
    one = Silence(0, "*", "silenced", "*", "x", "ann", 0.0, 1_000.0)
    silences.add(conn, one)
    alerts.acknowledge(conn, 2, "ben", 101.0)

    assert repeat(conn, channel, SENDER, lambda: 200.0) == 1
    assert pager.titles[3:] == [("trigger", "Load of open")]


def test_an_acknowledgement_is_told_where_the_alert_was_sent(conn: db.Store) -> None:
    pager, team = Recorder(), Recorder()
    open_alert(conn, "k1", severity="warning")
    run(conn, pager, Route(severity=("critical",)))
    run(conn, team, name="team")

    alerts.acknowledge(conn, 1, "ann", 60.0)
    run(conn, pager, Route(severity=("critical",)))
    run(conn, team, name="team")

    assert pager.got == []
    trigger, told = team.got
    assert (told.kind, told.key, told.by) == (NoticeKind.ACKNOWLEDGE, trigger.key, "ann")
    assert subject_of(told) == "Acknowledged by ann: [warning] metrics: Load of k1"
    assert told.at == 60.0


def test_an_acknowledged_alert_that_becomes_more_severe_is_sent_again(conn: db.Store) -> None:
    pager = Recorder()
    open_alert(conn, "k1", severity="warning")
    run(conn, pager)
    alerts.acknowledge(conn, 1, "ann", 60.0)
    open_alert(conn, "k1", severity="critical")
    run(conn, pager)
    alerts.acknowledge(conn, 1, "ben", 70.0)
    alerts.resolve(conn, "k1", 80.0)
    run(conn, pager)

    assert [str(one.kind) for one in pager.got] == ["trigger", "trigger", "resolve"]
    assert [state for _, state, _ in states(conn)] == ["sent", "skipped", "sent", "skipped", "sent"]


def test_a_group_is_acknowledged_when_all_its_alerts_are(conn: db.Store) -> None:
    pager = Recorder()
    for number in range(GROUP_FROM):
        open_alert(conn, f"k{number}")
    run(conn, pager)

    for number in range(1, GROUP_FROM + 1):
        assert len(pager.got) == 1
        alerts.acknowledge(conn, number, "ann", 60.0)
        run(conn, pager)

    assert [str(one.kind) for one in pager.got] == ["trigger", "acknowledge"]


def test_an_acknowledgement_at_the_service_is_not_sent_back_to_it(conn: db.Store) -> None:
    pager, team = Recorder(), Recorder()
    open_alert(conn, "k1")
    for notifier, name in ((pager, "pager"), (team, "team")):
        run(conn, notifier, name=name)

    assert deliveries.unacknowledged(conn, "pager") == {"home1:k1": {1: 5.0}}
    assert deliveries.acknowledge(conn, "pager", [1, 1], "pagerduty: Ann", 60.0) == 1
    for notifier, name in ((pager, "pager"), (team, "team")):
        run(conn, notifier, name=name)

    assert len(pager.got) == 1
    assert [one.by for one in team.got] == [None, "pagerduty: Ann"]
    assert deliveries.unacknowledged(conn, "pager") == {}


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


def test_secrets_are_hidden_in_notices_and_in_the_delivery_log(conn: db.Store) -> None:
    secrets.remember("planted-key-123")
    pager = Recorder(DeliveryError("bad key planted-key-123", is_permanent=True))
    for key in ("planted-key-123/a", "planted-key-123/b"):
        row = {"url": "https://x?token=planted-key-123", "planted-key-123": 7}
        title = "Login with planted-key-123 failed"
        alerts.open_once(conn, OpenAlert(key, "row", "metrics", title, data=row), 5.0)

    run(conn, pager)
    alerts.acknowledge(conn, 2, "ann planted-key-123", 60.0)
    run(conn, pager)
    alerts.resolve(conn, "planted-key-123/b", 70.0)
    run(conn, pager)

    assert [str(one.kind) for one in pager.got] == ["trigger", "trigger", "acknowledge", "resolve"]
    assert "planted" not in str([one.to_json() for one in pager.got])
    assert pager.got[0].key != pager.got[1].key == pager.got[3].key
    log = [one for number in (1, 2) for one in deliveries.of_alert(conn, number)]
    assert "planted" not in str([one.to_json() for one in log])
