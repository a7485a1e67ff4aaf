"""Keys of the HTTP API and the page: one small file per key, named by the hash of its secret.

`headrace token` makes keys, the page's process uses and ends them. Invariants: a secret is shown
once, to its maker, and never written; a login key works once; without a key there is no access.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.json_file import read_valid, write_json
from headrace.model.runs import Jsonable
from headrace.model.state_paths import StatePaths

LOGIN_S = 3600.0
SESSION_S = 12 * 3600.0
KEYS_MAX = 1_000
_SECRET = re.compile(r"[A-Za-z0-9_-]{20,200}")


class KeyKind(StrEnum):
    LOGIN = "login"  # in a link, once
    SESSION = "session"  # in a browser's cookie
    PROGRAM = "program"  # in a header, until it is revoked


class Role(StrEnum):
    VIEW = "view"
    OPERATE = "operate"  # also start, stop, restart, roll back

    def may(self, needed: str) -> bool:
        return self is Role.OPERATE or needed == Role.VIEW


@dataclass(frozen=True, slots=True)
class Key(Jsonable):
    hash: str
    kind: str
    by: str  # who made it, or who logged in with it: the name in the audit
    role: str
    at: float
    expires_at: float | None = None
    proof: str | None = None  # the hash of a session's second key


@dataclass(frozen=True, slots=True)
class Session:
    """The two keys of a browser. A cookie is sent to every port of a host, so it is useless without
    the other key, which the page's script keeps for its own origin."""

    cookie: str
    proof: str


def make(
    places: StatePaths,
    kind: KeyKind,
    by: str,
    role: Role,
    now: float,
    life_s: float | None,
    proof: str | None = None,
) -> str:
    """The secret; it is not stored."""
    prune(places, now)
    secret = secrets.token_urlsafe(32)
    expires_at = None if life_s is None else now + life_s
    hashed = None if proof is None else _hash(proof)
    key = Key(_hash(secret), kind.value, by, role.value, now, expires_at, hashed)
    write_json(places.key(key.hash), key.to_json())
    return secret


def make_session(places: StatePaths, login: Key, now: float) -> Session:
    proof, role = secrets.token_urlsafe(32), Role(login.role)
    return Session(make(places, KeyKind.SESSION, login.by, role, now, SESSION_S, proof), proof)


def is_proven(session: Key, proof: str) -> bool:
    return session.proof is not None and hmac.compare_digest(session.proof, _hash(proof))


def is_current(places: StatePaths, key: Key, now: float) -> bool:
    """Whether a key that was valid before still is."""
    found = _read(places, key.hash)
    return found is not None and not _is_expired(found, now)


def find(places: StatePaths, secret: str, kind: KeyKind, now: float) -> Key | None:
    if not _SECRET.fullmatch(secret):
        return None
    wanted = _hash(secret)
    key = _read(places, wanted)
    if key is None or not hmac.compare_digest(key.hash, wanted) or key.kind != kind.value:
        return None
    return None if _is_expired(key, now) else key


def spend(places: StatePaths, secret: str, now: float) -> Key | None:
    """Uses up a login key: of two requests with the same one, only one succeeds."""
    key = find(places, secret, KeyKind.LOGIN, now)
    if key is None:
        return None
    try:
        places.key(key.hash).unlink()
    except FileNotFoundError:
        return None
    return key


def end_sessions(places: StatePaths, by: str) -> int:
    mine = [key for key in list_keys(places) if key.kind == KeyKind.SESSION and key.by == by]
    return _remove(places, mine)


def revoke_all(places: StatePaths) -> int:
    return _remove(places, list(list_keys(places)))


def list_keys(places: StatePaths) -> Iterator[Key]:
    try:
        names = sorted(path.stem for path in places.keys.glob("*.json"))
    except OSError:
        return
    for name in names:
        if (key := _read(places, name)) is not None:
            yield key


def prune(places: StatePaths, now: float) -> None:
    """Expired keys, and the oldest sessions if there are too many."""
    known = sorted(list_keys(places), key=lambda key: key.at)
    old = [key for key in known if _is_expired(key, now)]
    passing = [key for key in known if key.kind != KeyKind.PROGRAM and key not in old]
    _remove(places, old + passing[: max(0, len(passing) - KEYS_MAX)])


def _is_expired(key: Key, now: float) -> bool:
    return key.expires_at is not None and now >= key.expires_at


def _remove(places: StatePaths, gone: list[Key]) -> int:
    for key in gone:
        with contextlib.suppress(OSError):
            places.key(key.hash).unlink(missing_ok=True)
    return len(gone)


def _read(places: StatePaths, hash_: str) -> Key | None:
    return read_valid(places.key(hash_), Key.from_json)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
