"""Login to Kafka for both clients (Spark's in Java, Headrace's librdkafka), and client settings
that would break a query. Pure, except that `for_…` resolve secrets.

Certificates are PEM files, which both clients read without a key store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace import secrets
from headrace.connectors.connector import check_all, require_choice
from headrace.connectors.kafka import read_options
from headrace.errors import ConnectorError, Error, together
from headrace.spelling import closest

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULE = "org.apache.kafka.common.security.{}LoginModule"

# setting of the client -> (why it breaks a query, fix)
_READING = {
    "group.id": (
        "each query needs its own consumer group: if queries share a group, each of them reads "
        "only some of the records",
        'Use group_prefix="…" to name the groups. To see how far behind each query is, run '
        "headrace lag.",
    ),
    "auto.offset.reset": (
        "the checkpoint holds the position, and only the first run needs a starting point",
        'Use starting="earliest", "latest", offsets or a timestamp.',
    ),
    "key.deserializer": ("keys arrive as bytes", 'Use F.col("key").cast("string") in the query.'),
    "value.deserializer": (
        "values arrive as bytes",
        'Use F.col("value").cast("string"), hr.parse_json or from_avro in the query.',
    ),
    "enable.auto.commit": (
        "the checkpoint stores the offsets together with the state",
        "Remove it. To see how far behind each query is, run headrace lag.",
    ),
    "interceptor.classes": (
        "interceptors can change records without Spark's knowledge",
        "Use a transformation in the query.",
    ),
}
_WRITING = {
    "key.serializer": ("keys are sent as bytes", 'Use F.col("key").cast("string") in the query.'),
    "value.serializer": (
        "values are sent as bytes",
        'Use F.to_json(F.struct("*")).alias("value") or to_avro in the query.',
    ),
    "group.id": ("a producer does not belong to a consumer group", "Remove it."),
    "enable.idempotence": (
        "without idempotence, records may be lost or duplicated within a batch",
        "Remove it: idempotence is on by default.",
    ),
    "transactional.id": (
        "a transaction belongs to one producer, so Spark's tasks would fence each other",
        "Use exactly_once=True, which writes each batch in a transaction.",
    ),
}


# option of Spark's connector -> field
_FIELDS = {
    "subscribe": "subscribe", "subscribepattern": "pattern", "assign": "assign", "topic": "topic",
    "startingoffsets": "starting", "startingtimestamp": "starting",
    "startingoffsetsbytimestamp": "starting", "endingoffsets": "ending",
    "startingoffsetsbytimestampstrategy": "starting",
    "endingtimestamp": "ending", "endingoffsetsbytimestamp": "ending", "includeheaders": "headers",
    "kafka.bootstrap.servers": "servers", "bootstrap.servers": "servers",
    **{option.lower(): field for field, option in read_options.OPTIONS.items()},
}  # fmt: skip
# Options of Spark that pass through. failOnDataLoss=true is the default.
_PLAIN = {
    name.lower(): name
    for name in (
        "failOnDataLoss",
        "asyncProgressTrackingEnabled",
        "asyncProgressTrackingCheckpointIntervalMs",
    )
}
_SECRET = re.compile(r"password|jaas|secret|keystore\.key|truststore\.certificates")


def check_options(
    options: Mapping[str, str],
    *,
    is_source: bool,
    is_sink: bool,
    fields: Mapping[str, str] | None = None,
) -> None:
    """Raises for settings that break a query, each with the reason and the alternative. Option
    names are case-insensitive in Spark. `fields` maps fields that a connector names differently."""
    named = {option: (fields or {}).get(field, field) for option, field in _FIELDS.items()}
    breaking = (_READING if is_source else {}) | (_WRITING if is_sink else {})
    found = (_option_problem(name, value, named, breaking) for name, value in options.items())
    if problems := [problem for problem in found if problem is not None]:
        raise together(problems)


def _option_problem(
    name: str,
    value: str,
    named: Mapping[str, str],
    breaking: Mapping[str, tuple[str, str]],
) -> Error | None:
    low = name.lower()
    bare = low.removeprefix("kafka.")
    if low in named:
        return _option_error(
            name, "the connector has a field for it", f"Use the field instead: {named[low]}=…"
        )
    if bare == "failondataloss" and value.lower() == "false":
        return _option_error(
            name,
            "records that Kafka deleted before they were read would be skipped silently",
            "If Kafka has deleted unread records, run headrace start NAME --accept-gap, which "
            "skips the gap once and writes an entry to the audit log.",
        )
    if bare in breaking:
        return _option_error(name, *breaking[bare])
    if _SECRET.search(bare) and not secrets.is_in(value):
        return _option_error(
            name,
            "it is a secret, and every copy of the definition would contain it",
            f'Write "{name}" = "${{env:NAME}}" or "${{file:PATH}}".',
        )
    if not low.startswith("kafka.") and low not in _PLAIN:
        return ConnectorError(
            f"Unknown option {name!r}.",
            why="Kafka client settings need the prefix `kafka.`. Options of Spark's Kafka "
            "connector are set as fields.",
            fix=_suggest_fix(name, named),
            slug="kafka-option",
        )
    return None


def _suggest_fix(name: str, named: Mapping[str, str]) -> str:
    meant = closest(name, [*named, *_PLAIN])
    if meant is None:
        return f'Write "kafka.{name}".' if "." in name else "Remove it."
    return (
        f"Did you mean {_PLAIN[meant]}?" if meant in _PLAIN else f"Did you mean {named[meant]}=…?"
    )


def _option_error(name: str, why: str, fix: str) -> ConnectorError:
    return ConnectorError(
        f"The option {name!r} is not allowed.",
        why=f"{why[:1].upper()}{why[1:]}.",
        fix=fix,
        slug="kafka-option",
    )


@dataclass(frozen=True, slots=True)
class Login:
    tls: bool = False
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    user: str | None = None
    password: str | None = None
    mechanism: str | None = None

    def check(self) -> None:
        known = (None, *MECHANISMS)
        check_all(
            lambda: _require_both(
                "certificate", self.certificate, "key", self.key, "Set both, as paths to PEM files."
            ),
            lambda: _require_both(
                "user",
                self.user,
                "password",
                self.password,
                'Set both. Write password="${env:NAME}" to keep the password out of the file.',
            ),
            lambda: require_choice("mechanism", self.mechanism, known, slug="kafka-login"),
        )
        if self.mechanism and not self.user:
            raise ConnectorError(
                "mechanism is set, but user is not.",
                fix="Add user and password, or remove mechanism.",
                slug="kafka-login",
            )

    @property
    def is_encrypted(self) -> bool:
        return self.tls or bool(self.ca or self.certificate)

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.user else "") + ("SSL" if self.is_encrypted else "PLAINTEXT")

    def for_java(self) -> dict[str, str]:
        """Settings of the Java client, without the prefix `kafka.`."""
        if self.protocol == "PLAINTEXT":
            return {}
        found = {"security.protocol": self.protocol}
        if self.ca:
            _read_pem(self.ca)  # a clearer error than Java's stack trace
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        if self.certificate and self.key:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _read_pem(self.certificate),
                "ssl.keystore.key": secrets.remember(_read_pem(self.key)),
            }
        if self.key_password:
            found["ssl.key.password"] = secrets.resolve(self.key_password)
        if self.user and self.password:
            mechanism = self.mechanism or MECHANISMS[0]
            kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            found["sasl.mechanism"] = mechanism
            found["sasl.jaas.config"] = (
                f"{_MODULE.format(kind)} required username={_quote_jaas(self.user)} "
                f"password={_quote_jaas(secrets.resolve(self.password))};"
            )
        return found

    def for_librdkafka(self) -> dict[str, str]:
        if self.protocol == "PLAINTEXT":
            return {}
        found = {"security.protocol": self.protocol}
        for name, path in (
            ("ssl.ca.location", self.ca),
            ("ssl.certificate.location", self.certificate),
            ("ssl.key.location", self.key),
        ):
            if path:
                _read_pem(path)  # librdkafka's error does not name the file
                found[name] = path
        if self.key_password:
            found["ssl.key.password"] = secrets.resolve(self.key_password)
        if self.user and self.password:
            found["sasl.mechanism"] = self.mechanism or MECHANISMS[0]
            found["sasl.username"] = self.user
            found["sasl.password"] = secrets.resolve(self.password)
        return found


def _require_both(
    name: str, value: str | None, other: str, other_value: str | None, fix: str
) -> None:
    if bool(value) != bool(other_value):
        what = f"{name} and {other} must be set together."
        raise ConnectorError(what, fix=fix, slug="kafka-login")


def _read_pem(path: str) -> str:
    """The file's content: the Java client takes a key and a certificate from two files as text."""
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConnectorError(
            f"The PEM file {path} cannot be read.",
            why=str(exc),
            where=path,
            fix="Check that it exists, is readable, and is a PEM file (-----BEGIN …).",
            slug="kafka-login",
        ) from exc


def _quote_jaas(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
