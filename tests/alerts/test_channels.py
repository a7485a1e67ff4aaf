"""`[notify.NAME]`: what is accepted, what is refused, and who gets which alert."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import config
from headrace.alerts.channels import Route, build, channels, kind_names
from headrace.errors import Error, Problems, each_of

GOOD = """
[notify.pager]
kind = "pagerduty"
routing_key = "${env:PAGERDUTY_KEY}"
severity = ["critical"]

[notify.team]
kind = "slack"
url = "${env:SLACK_URL}"
pipelines = ["orders-*"]
rules = ["needs-attention", "lag"]
repeat_every = "30 minutes"

[notify.mail]
kind = "email"
smtp = "smtp.example.org"
from = "headrace@example.org"
to = ["data-oncall@example.org"]
user = "headrace"
password = "${file:/run/secrets/smtp}"
"""


def load(folder: Path, text: str) -> config.Settings:
    (folder / "headrace.toml").write_text(text)
    return config.load(folder)


def test_channels_are_built_without_their_secrets(tmp_path: Path) -> None:
    pager, team, mail = channels(load(tmp_path, GOOD))

    assert pager.route == Route(severity=("critical",))
    assert team.repeat_s == 1800
    assert mail.kind == "email"


def test_a_route_takes_what_matches_all_its_fields() -> None:
    route = Route(("error", "critical"), ("orders-*",), ("lag",))

    assert route.takes("critical", "orders-eu", "lag")
    assert not route.takes("warning", "orders-eu", "lag")
    assert not route.takes("critical", "payments", "lag")
    assert not route.takes("critical", "orders-eu", "stalled")
    assert Route().takes("info", "", "anything")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('kind = "pagerdooty"', "has the unknown kind 'pagerdooty'"),
        ("", "has no kind"),
        ('kind = "slack"', "slack needs url"),
        (
            'kind = "slack"\nurl = "https://hooks.slack.com/services/T/B/X"',
            "a secret in plain text",
        ),
        ('kind = "slack"\nurl = "ftp://x"', "Invalid url: 'ftp://x'"),
        ('kind = "pagerduty"\nrouting_key = "0123"', "a secret in plain text"),
        ('kind = "webhook"\nurl = "https://x"\nsecret = "abc"', "a secret in plain text"),
        ('kind = "webhook"\nurll = "https://x"', "webhook has no field 'urll'"),
        ('kind = "webhook"\nurl = "https://x"\nseverity = ["critcal"]', "Unknown severity"),
        ('kind = "webhook"\nurl = "https://x"\nseverity = "critical"', "Invalid severity"),
        ('kind = "webhook"\nurl = "https://x"\nrepeat_every = "soon"', "[notify.mine]"),
        ('kind = "heartbeat"', "heartbeat needs url"),
        ('kind = "heartbeat"\nurl = "https://hc-ping.com/x"', "a secret in plain text"),
        ('kind = "heartbeat"\nurl = "${env:X}"\nevery = "soon"', "Invalid duration: 'soon'"),
        ('kind = "heartbeat"\nurl = "${env:X}"\nevery = "10ms"', "must be at least 1 s"),
        ('kind = "heartbeat"\nurl = "${env:X}"\nmethod = "HEAD"', "Invalid method"),
        ('kind = "heartbeat"\nurl = "${env:X}"\nrules = ["lag"]', "has no field 'rules'"),
        ('kind = "email"\nsmtp = "x:y"\nfrom = "a@b"\nto = ["a@b"]', "Invalid smtp: 'x:y'"),
        ('kind = "email"\nsmtp = "x"\nfrom = "a"\nto = ["a@b"]', "Invalid addresses"),
        ('kind = "email"\nsmtp = "x"\nfrom = "a@b"\nto = "a@b"', "Invalid addresses"),
        ('kind = "email"\nsmtp = "x"\nfrom = "a@b"\nto = ["a@b"]\ntls = "ssl"', "Invalid tls"),
        (
            'kind = "email"\nsmtp = "x"\nfrom = "a@b"\nto = ["a@b"]\nuser = "u"',
            "must be set together",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, line: str, what: str) -> None:
    with pytest.raises(Error) as caught:
        channels(load(tmp_path, f"\n[notify.mine]\n{line}\n"))

    assert what in str(caught.value)
    assert all(one.where == "headrace.toml:2" for one in each_of(caught.value))


def test_all_channels_are_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(Problems) as caught:
        channels(load(tmp_path, '[notify.a]\nkind = "x"\n[notify.b]\nkind = "slack"\n'))

    assert len(caught.value.problems) == 2


def test_every_kind_can_be_imported() -> None:
    for kind in kind_names():
        with pytest.raises(Error, match="needs"):
            build("mine", {"kind": kind})
