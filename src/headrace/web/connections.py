"""Which connection has to go when there are too many: never the newest.

A connection is a stranger's until a request on it brings a valid key. Strangers are limited for
each address and together, others for each key and together, so neither takes a place from the
other: however many connections strangers hold open, the health check and a person with a key get
one, and a key that takes too many only loses its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

STRANGERS_OF_ONE_ADDRESS = 64
STRANGERS = 256
OF_ONE_KEY = 32
WITH_A_KEY = 256


@dataclass(eq=False)
class Connection:
    address: str
    close: Callable[[], None]
    is_busy: Callable[[], bool]  # a response is on its way
    key: str | None = None


@dataclass
class Connections:
    """Owns the open ones. An address of `proxies` speaks for many people: it has no limit of its
    own."""

    proxies: Collection[str] = ()
    _open: dict[Connection, None] = field(default_factory=dict)  # the oldest first

    def add(self, one: Connection) -> None:
        self._open[one] = None
        self._make_room_for(one)

    def remove(self, one: Connection) -> None:
        self._open.pop(one, None)

    def recognise(self, one: Connection, key: str) -> None:
        if one.key != key and one in self._open:
            one.key = key
            self._make_room_for(one)

    def _make_room_for(self, newest: Connection) -> None:
        gone = surplus(list(self._open), newest, self.proxies)
        if gone is not None:
            self.remove(gone)
            gone.close()


def surplus(
    open_: Sequence[Connection], newest: Connection, proxies: Collection[str] = ()
) -> Connection | None:
    """The one that has to go so that `newest` can stay, if any has to."""
    is_stranger = newest.key is None
    kind = [one for one in open_ if (one.key is None) == is_stranger]
    mine = [one for one in kind if _owner(one) == _owner(newest)]
    own_limit = STRANGERS_OF_ONE_ADDRESS if is_stranger else OF_ONE_KEY
    if len(mine) > own_limit and not (is_stranger and newest.address in proxies):
        return _first_to_go(mine, newest)
    if len(kind) > (STRANGERS if is_stranger else WITH_A_KEY):
        [(greedy, _)] = Counter(map(_owner, kind)).most_common(1)
        return _first_to_go([one for one in kind if _owner(one) == greedy], newest)
    return None


def _owner(one: Connection) -> str:
    return one.key or one.address


def _first_to_go(candidates: Sequence[Connection], newest: Connection) -> Connection | None:
    """The oldest that waits for nothing, else the oldest."""
    others = [one for one in candidates if one is not newest]
    idle = [one for one in others if not one.is_busy()]
    return next(iter(idle or others), None)
