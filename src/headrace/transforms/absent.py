"""`hr.absent`: a row when a key falls silent, and one with `resolved = true` when it is back.

Kept in Spark's own state by key, with timers on the clock. Own downtime is no silence: a timer that
runs out in another run than the key was last seen in starts again, since what arrived meanwhile may
not have been read yet. Rows of a batch are seen before its timers run out, so a slow batch raises
no alarm either.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.errors import DefinitionError
from headrace.transforms import columns, notes
from headrace.words import parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ADDED = ("last_seen", "resolved")


def absent(df: DataFrame, key: str | list[str] | tuple[str, ...], for_: str | float) -> DataFrame:
    """The key's columns, `last_seen` (when its last row was read) and `resolved`.

    The query needs `every=`, and mode "update" or "append".
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    limit_s = parse_duration(for_)
    _refuse_wrong(df, keys, limit_s)
    taken = notes.current()
    if taken is not None:
        taken.timed.append(notes.Timed("absent", limit_s))
    if not df.isStreaming:
        return _nothing(df, keys)
    output = ", ".join((*(f"`{k}` {t}" for k, t in df.select(*keys).dtypes), *_columns()))
    watching = _processor(keys, round(limit_s * 1000), uuid.uuid4().hex)
    grouped = df.select(*keys).groupBy(*keys)
    found = grouped.transformWithState(watching, output, "Update", "ProcessingTime")
    return found.selectExpr(
        *(f"`{k}`" for k in keys), "timestamp_millis(last_seen) AS last_seen", "resolved"
    )


def _columns() -> tuple[str, ...]:
    return ("last_seen bigint", "resolved boolean")


def _processor(keys: tuple[str, ...], limit_ms: int, run: str) -> Any:
    """A class made here goes to the workers by value: they need not have Headrace installed."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Watching(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.seen = handle.getValueState("seen", "at bigint, silent boolean, run string")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            for _row in rows:
                pass  # one or many: it is there
            now = timerValues.getCurrentProcessingTimeInMs()
            at, silent, _ = self.seen.get() if self.seen.exists() else (0, False, None)
            if at == 0 or silent:
                self.handle.registerTimer(now + limit_ms)
            self.seen.update((now, False, run))
            if silent:
                yield self.row(key, at, resolved=True)

        def handleExpiredTimer(  # Spark calls it by these names
            self, key: Any, timerValues: Any, expiredTimerInfo: Any
        ) -> Iterator[Any]:
            now = timerValues.getCurrentProcessingTimeInMs()
            at, _silent, seen_in = self.seen.get()
            if seen_in != run:  # it was down in between: silence counts from here
                self.seen.update((at, False, run))
                self.handle.registerTimer(now + limit_ms)
            elif now < at + limit_ms:
                self.handle.registerTimer(at + limit_ms)
            else:
                self.seen.update((at, True, run))
                yield self.row(key, at, resolved=False)

        def row(self, key: Any, at: int, resolved: bool) -> Any:
            return Row(**dict(zip(keys, key, strict=True)), last_seen=at, resolved=resolved)

        def close(self) -> None:
            pass

    return Watching()


def _refuse_wrong(df: DataFrame, keys: tuple[str, ...], limit_s: float) -> None:
    if not keys:
        raise DefinitionError(
            "hr.absent needs a key.",
            why="It tells of each key whether it is silent.",
            fix='Name the column: key="cluster_id".',
            slug="unknown-column",
        )
    columns.require(df, "absent", keys)
    if clash := [name for name in keys if name in _ADDED]:
        raise DefinitionError(
            f"hr.absent adds {' and '.join(_ADDED)}, and {clash[0]!r} is in the key already.",
            fix="Rename that column before.",
            slug="column-twice",
        )
    if limit_s <= 0:
        raise DefinitionError(
            "hr.absent: for_ has to be longer than nothing.",
            fix='Write it like for_="1 minute".',
            slug="bad-duration",
        )


def _nothing(df: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """A batch run is one moment: nothing falls silent in it."""
    return df.limit(0).selectExpr(
        *(f"`{k}`" for k in keys), "CAST(NULL AS TIMESTAMP) AS last_seen", "true AS resolved"
    )
