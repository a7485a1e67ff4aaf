"""Fields of a Kafka source and the options of Spark's connector that they set. Pure.

Options of the Kafka client are not here: they pass through as `kafka.…` (`login`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from headrace.connectors.connector import check_all, require_count
from headrace.errors import ConnectorError

# field -> option of Spark's connector
_STREAM_OPTIONS = {
    "max_rows": "maxOffsetsPerTrigger",
    "min_rows": "minOffsetsPerTrigger",
    "max_delay": "maxTriggerDelay",
    "max_partition_rows": "maxRecordsPerPartition",  # Spark ignores it in a batch read
}
_READ_OPTIONS = {
    "min_partitions": "minPartitions",
    "group_prefix": "groupIdPrefix",
    "poll_timeout": "kafkaConsumer.pollTimeoutMs",
    "offset_retries": "fetchOffset.numRetries",
    "offset_retry_delay": "fetchOffset.retryIntervalMs",
}
OPTIONS = _STREAM_OPTIONS | _READ_OPTIONS
_DURATIONS = ("max_delay", "poll_timeout", "offset_retry_delay")
_COUNTS = ("max_rows", "min_rows", "min_partitions", "max_partition_rows", "offset_retries")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Batch size, parallelism and timeouts. Durations are in seconds."""

    max_rows: int | None = None
    min_rows: int | None = None
    max_delay: float | None = None
    min_partitions: int | None = None
    max_partition_rows: int | None = None
    group_prefix: str | None = None
    poll_timeout: float | None = None
    offset_retries: int | None = None
    offset_retry_delay: float | None = None

    @property
    def has_batch_limit(self) -> bool:
        """Such limits do not work in a real-time query, which has one task per partition."""
        return any((self.max_rows, self.min_rows, self.min_partitions, self.max_partition_rows))

    def options(self, *, streaming: bool) -> dict[str, str]:
        """The options of Spark's connector; a batch read has no trigger options."""
        names = OPTIONS if streaming else _READ_OPTIONS
        return {
            option: self._format_option(field)
            for field, option in names.items()
            if getattr(self, field) is not None
        }

    def _format_option(self, field: str) -> str:
        value = getattr(self, field)
        if field not in _DURATIONS:
            return str(value)
        return f"{value * 1000:.0f}" + ("ms" if field == "max_delay" else "")

    def check(self) -> None:
        """Raises for values that Spark would accept but not apply as intended."""
        check_all(*(partial(require_count, name, getattr(self, name)) for name in _COUNTS))
        if self.max_delay is not None and self.min_rows is None:
            raise ConnectorError(
                "max_delay has no effect without min_rows.",
                why="It limits how long the source waits for min_rows.",
                fix="Add min_rows, or remove max_delay.",
                slug="bad-option",
            )
        least, most = self.min_rows, self.max_rows
        if least is not None and most is not None and least > most:
            raise ConnectorError(
                f"min_rows={least} is greater than max_rows={most}.",
                fix="Decrease min_rows or increase max_rows.",
                slug="bad-option",
            )
