"""How a source reads Kafka: what Spark's connector can be told, with names and types of ours. Pure.

Options of Kafka's own client are not among them: they pass through as `kafka.…` (`kafkaclient`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from headrace.connectors.connector import check_all, require_count
from headrace.errors import ConnectorError

# our field -> Spark's option
_OF_A_STREAM = {
    "max_rows": "maxOffsetsPerTrigger",
    "min_rows": "minOffsetsPerTrigger",
    "max_delay": "maxTriggerDelay",
    "max_partition_rows": "maxRecordsPerPartition",  # of a batch Spark does not heed it
}
_OF_A_READ = {
    "min_partitions": "minPartitions",
    "group_prefix": "groupIdPrefix",
    "poll_timeout": "kafkaConsumer.pollTimeoutMs",
    "offset_retries": "fetchOffset.numRetries",
    "offset_retry_delay": "fetchOffset.retryIntervalMs",
}
OPTIONS = _OF_A_STREAM | _OF_A_READ
_DURATIONS = ("max_delay", "poll_timeout", "offset_retry_delay")
_COUNTS = ("max_rows", "min_rows", "min_partitions", "max_partition_rows", "offset_retries")


@dataclass(frozen=True, slots=True)
class Reading:
    """How much at once, by how many tasks, and how patiently. Lengths of time in seconds."""

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
    def limits_batches(self) -> bool:
        """What a real-time query cannot have: it reads whatever comes, a task a partition."""
        asked = (self.max_rows, self.min_rows, self.min_partitions, self.max_partition_rows)
        return any(asked)

    def options(self, *, streaming: bool) -> dict[str, str]:
        """As Spark takes them; a batch has no trigger to wait for."""
        names = OPTIONS if streaming else _OF_A_READ
        return {
            option: self._told(field)
            for field, option in names.items()
            if getattr(self, field) is not None
        }

    def _told(self, field: str) -> str:
        value = getattr(self, field)
        if field not in _DURATIONS:
            return str(value)
        return f"{value * 1000:.0f}" + ("ms" if field == "max_delay" else "")

    def check(self) -> None:
        """Raises what makes no sense. Spark would take some of it, and do something else than one
        thinks."""
        check_all(*(partial(require_count, name, getattr(self, name)) for name in _COUNTS))
        if self.max_delay is not None and self.min_rows is None:
            raise ConnectorError(
                "max_delay alone does nothing.",
                why="It says how long min_rows may be waited for.",
                fix="Add min_rows, or remove max_delay.",
                slug="bad-option",
            )
        least, most = self.min_rows, self.max_rows
        if least is not None and most is not None and least > most:
            raise ConnectorError(
                f"min_rows={least} is more than max_rows={most}.",
                fix="Exchange them.",
                slug="bad-option",
            )
