"""Which connection to close when there are too many: never the newest.

A connection is anonymous until a request on it brings a valid key. Anonymous connections are
limited per address and in total, the others per key and in total. So however many anonymous
connections are open, the health check and a user with a key still get one, and a key with too many
connections only loses its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

ANONYMOUS_PER_ADDRESS = 64
ANONYMOUS = 256
PER_KEY = 32
WITH_KEY = 256


@dataclass(eq=False)
class Connection:
    address: str
    close: Callable[[], None]
    is_busy: Callable[[], bool]  # a response is being sent
    key: str | None = None


@dataclass
class Connections:
    """The open ones. An address in `proxies` stands for many users, so it has no limit."""

    proxies: Collection[str] = ()
    _open: dict[Connection, None] = field(default_factory=dict)  # oldest first

    def add(self, one: Connection) -> None:
        self._open[one] = None
        self._close_surplus(one)

    def remove(self, one: Connection) -> None:
        self._open.pop(one, None)

    def recognise(self, one: Connection, key: str) -> None:
        if one.key != key and one in self._open:
            one.key = key
            self._close_surplus(one)

    def _close_surplus(self, newest: Connection) -> None:
        extra = surplus(list(self._open), newest, self.proxies)
        if extra is not None:
            self.remove(extra)
            extra.close()


def surplus(
    open_: Sequence[Connection], newest: Connection, proxies: Collection[str] = ()
) -> Connection | None:
    """The connection to close so that `newest` can stay, if there are too many."""
    is_anonymous = newest.key is None
    kind = [conn for conn in open_ if (conn.key is None) == is_anonymous]
    mine = [conn for conn in kind if _owner(conn) == _owner(newest)]
    own_limit = ANONYMOUS_PER_ADDRESS if is_anonymous else PER_KEY
    if len(mine) > own_limit and not (is_anonymous and newest.address in proxies):
        return _least_useful(mine, newest)
    if len(kind) > (ANONYMOUS if is_anonymous else WITH_KEY):
        [(greedy, _)] = Counter(map(_owner, kind)).most_common(1)
        return _least_useful([conn for conn in kind if _owner(conn) == greedy], newest)
    return None


def _owner(conn: Connection) -> str:
    return conn.key or conn.address


def _least_useful(candidates: Sequence[Connection], newest: Connection) -> Connection | None:
    """The oldest idle one, else the oldest."""
    others = [conn for conn in candidates if conn is not newest]
    idle = [conn for conn in others if not conn.is_busy()]
    return next(iter(idle or others), None)
