"""`hr.absent` emits a row when a key becomes silent, and one with `resolved` when it returns.

Uses Spark's keyed state with processing-time timers. Downtime of the query is not silence: a timer
that expires in a different run than the one that last saw its key is started again, because records
from the downtime may not have been read yet. Rows of a batch are handled before its timers, so a
slow batch does not raise an alert either.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.durations import parse_duration
from headrace.errors import DefinitionError
from headrace.transforms import build_notes, column_checks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ADDED = ("last_seen", "resolved")


def absent(df: DataFrame, key: str | list[str] | tuple[str, ...], for_: str | float) -> DataFrame:
    """Returns the key columns, `last_seen` (when its last row was read) and `resolved`.

    The query needs `every=`, and mode "update" or "append".
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    limit_s = parse_duration(for_)
    _check_arguments(df, keys, limit_s)
    if (notes := build_notes.current()) is not None:
        notes.timed.append(build_notes.TimerNote("absent", limit_s))
    if not df.isStreaming:
        # In a batch run no key becomes silent.
        return df.limit(0).selectExpr(
            *(f"`{k}`" for k in keys), "CAST(NULL AS TIMESTAMP) AS last_seen", "true AS resolved"
        )
    key_types = [f"`{k}` {t}" for k, t in df.select(*keys).dtypes]
    output = ", ".join((*key_types, "last_seen bigint", "resolved boolean"))
    watching = _processor(keys, round(limit_s * 1000), uuid.uuid4().hex)
    grouped = df.select(*keys).groupBy(*keys)
    alerts = grouped.transformWithState(watching, output, "Update", "ProcessingTime")
    return alerts.selectExpr(
        *(f"`{k}`" for k in keys), "timestamp_millis(last_seen) AS last_seen", "resolved"
    )


def _processor(keys: tuple[str, ...], limit_ms: int, run: str) -> Any:
    """A local class is pickled by value, so workers do not need Headrace."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Watching(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.seen = handle.getValueState("seen", "at bigint, silent boolean, run string")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            for _row in rows:
                pass
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
            if seen_in != run:  # after downtime, silence is counted from now
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


def _check_arguments(df: DataFrame, keys: tuple[str, ...], limit_s: float) -> None:
    if not keys:
        raise DefinitionError(
            "hr.absent needs a key.",
            why="It reports which keys are silent.",
            fix='Name the column: key="cluster_id".',
            slug="unknown-column",
        )
    column_checks.require(df, "absent", keys)
    if clash := [name for name in keys if name in _ADDED]:
        raise DefinitionError(
            f"hr.absent adds the column {clash[0]!r}, which is already in the key.",
            fix="Rename that column first.",
            slug="column-twice",
        )
    if limit_s <= 0:
        raise DefinitionError(
            "hr.absent: for_ must be positive.",
            fix='Write, for example, for_="1 minute".',
            slug="bad-duration",
        )
