"""No secret survives, whether its value is known or only its key looks like one."""

from __future__ import annotations

import base64
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.failures.redaction import HIDDEN, redact

CANARY = "cAnArY7xQ2"


@pytest.mark.parametrize(
    "text",
    [
        f"password={CANARY}",
        f"spark.db.password: {CANARY}",
        f'"password": "{CANARY}"',
        f"{{'api_key': '{CANARY}'}}",
        f"apiKey={CANARY}&x=1",
        f"fs.s3a.secret.key={CANARY}",
        f"fs.s3a.access.key={CANARY}",
        f"access_key = {CANARY}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={CANARY}==;EndpointSuffix=x",
        f"Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey={CANARY}",
        f"pwd={CANARY};",
        f"PGPASSWORD={CANARY}",
        f"routing_key={CANARY}",
        f"'routing_key': '{CANARY}'",
        f"webhook_url=https://example.test/{CANARY}",
        f"https://hooks.slack.com/services/T0/B0/{CANARY}",
        f"jdbc:postgresql://user:{CANARY}@db.test:5432/shop",
        f"jdbc:postgresql://db.test/shop?user=a&password={CANARY}&ssl=true",
        f"https://user:{CANARY}@example.test/path",
        f"smtp://mail:{CANARY}@smtp.test:587",
        f"Authorization: Bearer {CANARY}.abc.def",
        f"authorization='Basic {CANARY}='",
        f"bearer {CANARY}",
        f"token: {CANARY}",
        f'"refresh_token":"{CANARY}"',
        "kafka.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="u" password="{CANARY}";',
        f'sasl.jaas.config: PlainLoginModule required username="u" password="{CANARY}"',
        f'ScramLoginModule required username="{CANARY}" password="x";',
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n(cut off",
        f"client_secret={CANARY}",
        f"truststore.passphrase={CANARY}",
        f'password = "with space {CANARY}"',
        f'password="quote \\" inside {CANARY}"',
        f"psql --password {CANARY} -h db.test",
        f"kinit --db-password '{CANARY} with space'",
        f"tool -passphrase {CANARY}",
        f"['tool', '--api-key', '{CANARY}']",
        f"gpg: passphrase {CANARY} was refused",
        f"Passphrase hunter-{CANARY}",
        f"ALTER USER app PASSWORD '{CANARY}'",
        f"connecting with password {CANARY}!",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    assert CANARY not in redact(text, ())


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=4, max_size=40),
    st.text("abc \n/:=", max_size=40),
    st.text("abc \n/:=", max_size=40),
)
def test_a_known_secret_never_survives(secret: str, before: str, after: str) -> None:
    if secret in HIDDEN or secret in before + after:
        return

    for form in (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()):
        assert form not in redact(f"{before}{form}{after}", (secret,)).replace(HIDDEN, "")


def test_a_secret_that_holds_another_goes_as_a_whole() -> None:
    assert redact("x hunter22-long y", ("hunter22", "hunter22-long")) == f"x {HIDDEN} y"


def test_a_short_value_does_not_hide_ordinary_words() -> None:
    assert redact("a table of orders", ("a", "of")) == "a table of orders"


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'price'",
        "Cannot start query with name orders as a query with that name is already active",
        "SaslAuthenticationException: Authentication failed: Invalid username or password",
        "SharedAccessKeyName=reader",
        'FATAL: password authentication failed for user "app1"',
        "The passphrase is wrong, and the passphrase for key.pem must not be empty",
        "tool --password --verbose",
        "password must have at least 12 characters",
        "https://example.test:8443/path",
        "s3a://bucket/path/part-00000.parquet",
        'File "/project/pipelines/orders.py", line 8, in price',
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text, ()) == text


@given(st.text(max_size=200))
def test_a_second_time_changes_nothing(text: str) -> None:
    once = redact(text, ("s3cret-value",))

    assert redact(once, ("s3cret-value",)) == once


@pytest.mark.thorough
@pytest.mark.parametrize(
    "unit", ["a.", "aB", "password", "key=", "://a:", "token: ", '"', "-----BEGIN ", "https://a/"]
)
def test_no_text_takes_long_to_redact(unit: str) -> None:
    started = time.process_time()

    redact(unit * 20_000, ("s3cret-value",))

    assert time.process_time() - started < 5
