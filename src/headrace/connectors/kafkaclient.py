"""How clients log in to Kafka, for both of them (Spark's in Java, ours by librdkafka), and which
settings of the client break a query. Pure, but that secrets are resolved in `for_…`.

Certificates are PEM files: both clients read them as they are, without a key store to make.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace import references
from headrace.connectors import kafkareading
from headrace.errors import ConnectorError, Error, together
from headrace.words import near

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULE = "org.apache.kafka.common.security.{}LoginModule"

# setting of the client -> (why it breaks a query, what to use instead)
_READING = {
    "group.id": (
        "every query has a consumer group of its own: with a shared one they take each other's "
        "records",
        'group_prefix="…" names the groups; headrace lag shows how far behind each query is',
    ),
    "auto.offset.reset": (
        "where to begin is the checkpoint's, and only the first run asks",
        'starting="earliest", "latest", offsets or a moment',
    ),
    "key.deserializer": ("keys arrive as bytes", 'F.col("key").cast("string") in the query'),
    "value.deserializer": (
        "values arrive as bytes",
        'F.col("value").cast("string"), hr.parse_json or from_avro in the query',
    ),
    "enable.auto.commit": (
        "offsets are kept in the checkpoint, together with the state",
        "nothing; headrace lag shows how far behind each query is",
    ),
    "interceptor.classes": (
        "interceptors may change records behind Spark's back",
        "a transformation in the query",
    ),
}
_WRITING = {
    "key.serializer": ("keys are sent as bytes", 'F.col("key").cast("string") in the query'),
    "value.serializer": (
        "values are sent as bytes",
        'F.to_json(F.struct("*")).alias("value") or to_avro in the query',
    ),
    "group.id": ("a producer has no group", "nothing"),
    "enable.idempotence": (
        "switched off, a record that was sent may be lost or doubled within a batch",
        "nothing: it is on",
    ),
    "transactional.id": (
        "Spark's tasks would fence each other: a transaction belongs to one producer",
        "exactly_once=True, which writes each batch in a transaction of its own",
    ),
}


# option of Spark's connector -> our field
_FIELDS = {
    "subscribe": "subscribe", "subscribepattern": "pattern", "assign": "assign", "topic": "topic",
    "startingoffsets": "starting", "startingtimestamp": "starting",
    "startingoffsetsbytimestamp": "starting", "endingoffsets": "ending",
    "startingoffsetsbytimestampstrategy": "starting",
    "endingtimestamp": "ending", "endingoffsetsbytimestamp": "ending", "includeheaders": "headers",
    "kafka.bootstrap.servers": "servers", "bootstrap.servers": "servers",
    **{option.lower(): field for field, option in kafkareading.OPTIONS.items()},
}  # fmt: skip
# Options of Spark's that are no fields: the first is what it is anyway, the others are any sink's.
_PLAIN = {
    name.lower(): name
    for name in (
        "failOnDataLoss",
        "asyncProgressTrackingEnabled",
        "asyncProgressTrackingCheckpointIntervalMs",
    )
}
_SECRET = re.compile(r"password|jaas|secret|keystore\.key|truststore\.certificates")


def refuse(
    options: Mapping[str, str],
    *,
    is_source: bool,
    is_sink: bool,
    fields: Mapping[str, str] | None = None,
) -> None:
    """Settings of the client that break a query, each with the reason and what to use instead.
    Spark takes its options in any case. `fields` are those that a connector calls otherwise."""
    named = {option: (fields or {}).get(field, field) for option, field in _FIELDS.items()}
    breaking = (_READING if is_source else {}) | (_WRITING if is_sink else {})
    found = (_why_refused(name, value, named, breaking) for name, value in options.items())
    if problems := [problem for problem in found if problem is not None]:
        raise together(problems)


def _why_refused(
    name: str,
    value: str,
    named: Mapping[str, str],
    breaking: Mapping[str, tuple[str, str]],
) -> Error | None:
    low = name.lower()
    bare = low.removeprefix("kafka.")
    if low in named:
        return _refused(name, "there is a field for it", f"{named[low]}=…")
    if bare == "failondataloss" and value.lower() == "false":
        return _refused(
            name,
            "records that Kafka has deleted before they were read would be left out for good, "
            "and nobody would notice",
            "`headrace start NAME --accept-gap` after a stop: once, and written down",
        )
    if bare in breaking:
        return _refused(name, *breaking[bare])
    if _SECRET.search(bare) and not references.is_in(value):
        return _refused(
            name,
            "it is a secret, and would stand in every copy of the definition",
            f'"{name}" = "${{env:NAME}}" or "${{file:PATH}}"',
        )
    if not low.startswith("kafka.") and low not in _PLAIN:
        return ConnectorError(
            f"Unknown option {name!r}.",
            why="Settings of Kafka's client begin with kafka., and what Spark's connector can "
            "be told has fields.",
            fix=_meant(name, named),
            slug="kafka-option",
        )
    return None


def _meant(name: str, named: Mapping[str, str]) -> str:
    meant = near(name, [*named, *_PLAIN])
    if meant is None:
        return f'Write "kafka.{name}".' if "." in name else "Remove it."
    return (
        f"Did you mean {_PLAIN[meant]}?" if meant in _PLAIN else f"Did you mean {named[meant]}=…?"
    )


def _refused(name: str, why: str, instead: str) -> ConnectorError:
    return ConnectorError(
        f"options may not have {name!r}.",
        why=f"{why[:1].upper()}{why[1:]}.",
        fix=f"Instead: {instead}.",
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
        """Raises all that cannot work."""
        problems = []
        if bool(self.certificate) != bool(self.key):
            problems.append(
                ConnectorError(
                    "certificate and key come together.",
                    why="A client shows its certificate, and proves it with the key.",
                    fix="Give both, each as a PEM file.",
                    slug="kafka-login",
                )
            )
        if bool(self.user) != bool(self.password):
            problems.append(
                ConnectorError(
                    "user and password come together.",
                    fix='Give both; password="${env:KAFKA_PASSWORD}" keeps it out of the file.',
                    slug="kafka-login",
                )
            )
        if self.mechanism is not None and self.mechanism not in MECHANISMS:
            meant = near(self.mechanism, MECHANISMS)
            problems.append(
                ConnectorError(
                    f"mechanism={self.mechanism!r} is not known.",
                    why=f"There are {', '.join(MECHANISMS)}; others by options kafka.sasl.….",
                    fix=f"Did you mean {meant!r}?" if meant else None,
                    slug="kafka-login",
                )
            )
        elif self.mechanism and not self.user:
            problems.append(
                ConnectorError(
                    "mechanism says how to log in, and there is no user.",
                    fix="Add user and password, or remove mechanism.",
                    slug="kafka-login",
                )
            )
        if problems:
            raise together(problems)

    @property
    def is_encrypted(self) -> bool:
        return self.tls or bool(self.ca or self.certificate)

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.user else "") + ("SSL" if self.is_encrypted else "PLAINTEXT")

    def given(self) -> dict[str, str | bool]:
        return {name: value for name, value in asdict(self).items() if value}

    def for_java(self) -> dict[str, str]:
        """Of the Java client, without the prefix `kafka.`; nothing for a plain connection."""
        if self.protocol == "PLAINTEXT":
            return {}
        found = {"security.protocol": self.protocol}
        if self.ca:
            _text(self.ca)  # Java would say so in the middle of a trace
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        if self.certificate and self.key:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _text(self.certificate),
                "ssl.keystore.key": references.remembered(_text(self.key)),
            }
        if self.key_password:
            found["ssl.key.password"] = references.resolve(self.key_password)
        if self.user and self.password:
            mechanism = self.mechanism or MECHANISMS[0]
            kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            found["sasl.mechanism"] = mechanism
            found["sasl.jaas.config"] = (
                f"{_MODULE.format(kind)} required username={_quoted(self.user)} "
                f"password={_quoted(references.resolve(self.password))};"
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
                _text(path)  # librdkafka would not say which file it is
                found[name] = path
        if self.key_password:
            found["ssl.key.password"] = references.resolve(self.key_password)
        if self.user and self.password:
            found["sasl.mechanism"] = self.mechanism or MECHANISMS[0]
            found["sasl.username"] = self.user
            found["sasl.password"] = references.resolve(self.password)
        return found


def _text(path: str) -> str:
    """The file itself: of a key and a certificate in two files the Java client takes only texts."""
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConnectorError(
            f"The PEM file {path} cannot be read.",
            why=str(exc),
            where=path,
            fix="Look whether it is there, readable, and a PEM file (-----BEGIN …).",
            slug="kafka-login",
        ) from exc


def _quoted(value: str) -> str:
    """As JAAS reads it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
