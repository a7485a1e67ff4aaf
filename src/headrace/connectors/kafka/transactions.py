"""Exactly-once writes to Kafka: a producer in the driver writes each batch in a transaction.

The transaction also commits the batch number as the offset of the consumer group
`headrace-QUERY_ID`, with a hash of the batch's planned input as metadata. A batch that is repeated
after a failure is recognised by these, and not sent again. The transactional id is unique to the
query too: a new run aborts the open transaction of the previous run, and fences it off.

Rows leave Spark as Arrow batches, one task at a time, which bounds the memory.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.config import local_path
from headrace.connectors.connector import query_id
from headrace.connectors.kafka import broker_client, client_errors, producer_options
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TIMEOUT_MS = 900_000  # for a whole batch; the default maximum of a broker
INIT_S = 60.0
ABORT_S = 10.0
ASK_AGAIN_S = 0.2
TASKS_MAX = 16  # each is a separate job
_QUEUED_KB = 131_072
_MARK_CHARS = 16
_MARK = re.compile(rf", of ([0-9a-f]{{{_MARK_CHARS}}})$")
# The group coordinator is being elected: the broker just started, or has its first group.
_PASSING = (
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "UNSTABLE_OFFSET_COMMIT",
)
logger = logging.getLogger(__name__)


def settings(client: Mapping[str, str], options: Mapping[str, str], name: str) -> dict[str, Any]:
    """Settings of the producer. `options` are those of Spark's connector."""
    return {
        **client,
        "transaction.timeout.ms": TIMEOUT_MS,
        "partitioner": "murmur2_random",  # as in the Java client
        "queue.buffering.max.kbytes": _QUEUED_KB,
        "log_level": 0,
        **producer_options.to_librdkafka(options),
        "transactional.id": name,
    }


def reader_settings(
    client: Mapping[str, str], options: Mapping[str, str], group: str
) -> dict[str, Any]:
    """Settings of the consumer, with the same login; librdkafka ignores producer settings."""
    return {
        **client,
        "log_level": 0,
        **producer_options.to_librdkafka(options),
        "group.id": group,
        "isolation.level": "read_committed",
    }


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A batch, and a hash of its planned input if that is known."""

    number: int
    mark: str | None = None

    def in_words(self) -> str:
        """The metadata of the offset; `from_words` reads it."""
        return f"batch {self.number} is written" + (f", of {self.mark}" if self.mark else "")

    @classmethod
    def from_words(cls, number: int, words: str | None) -> PlannedWrite:
        found = _MARK.search(words or "")  # early versions wrote no mark
        return cls(number, found[1] if found else None)


def read_planned_write(checkpoint: str | None, batch: int) -> PlannedWrite:
    """Spark writes offsets/N once, before batch N first runs; another plan is another file."""
    folder = local_path(checkpoint) if checkpoint else None
    if folder is None:
        return PlannedWrite(batch)
    try:
        content = (folder / "offsets" / str(batch)).read_bytes()
    except OSError:
        return PlannedWrite(batch)
    return PlannedWrite(batch, hashlib.sha256(content).hexdigest()[:_MARK_CHARS])


def is_new(last: PlannedWrite | None, batch: PlannedWrite) -> bool:
    """Whether the rows of a batch must be written; `last` is the last batch that was."""
    if last is None or batch.number > last.number:
        return True
    is_known = last.mark is not None and batch.mark is not None
    is_other = batch.number < last.number or (is_known and last.mark != batch.mark)
    if not is_other:
        return False
    other = f"{'a different ' * (batch.number == last.number)}batch {batch.number}"
    raise ConnectorError(
        f"Kafka already has batch {last.number} of this query, but the checkpoint continues with "
        f"{other}.",
        why="The checkpoint was reset to an earlier state. Its batches may now contain different "
        "rows, so rows could be lost or written twice.",
        fix="Restore the newer checkpoint, or set a new `checkpoint` for the query. The query "
        "then starts as a new query and writes its rows again.",
        slug="sink-is-ahead",
    )


@dataclass
class Transactions:
    """The sink of one query in one run. The producer is created with the first batch, when the
    query id is known."""

    client: Mapping[str, str]
    options: Mapping[str, str]
    topic: str | None
    checkpoint: str | None = None
    _producer: Any = field(default=None, init=False)
    _reader: Any = field(default=None, init=False)
    _group: str = field(default="", init=False)
    _last: PlannedWrite | None = field(default=None, init=False)

    def take(self, frame: DataFrame, batch: int) -> None:
        if self._producer is None:
            self._begin(frame)
        now = read_planned_write(self.checkpoint, batch)
        rows = _records(frame, self.topic)
        if not is_new(self._last, now):
            logger.info("batch %s was already written before the failure: skipped", batch)
            for _ in rows:  # Spark updates metrics and state while a batch is read
                pass
        elif self._send(rows, now):
            self._last = now

    def _begin(self, frame: DataFrame) -> None:
        self._group = f"headrace-{query_id(frame)}"
        producer = self._create_producer()
        self._reader = self._create_reader()
        # This aborts an open transaction of the last run: only then is the offset final.
        producer.init_transactions(INIT_S)
        self._last = self._fetch_last_write()
        self._producer = producer

    def _create_producer(self) -> Any:
        kafka = client_errors.confluent()
        try:
            return kafka.Producer(
                settings(self.client, self.options, self._group), logger=broker_client.QUIET
            )
        except kafka.KafkaException as exc:
            raise producer_options.option_error(exc.args[0].str()) from exc

    def _create_reader(self) -> Any:
        """A consumer that never reads: the client needs one for group offsets."""
        own = reader_settings(self.client, self.options, self._group)
        return client_errors.confluent().Consumer(own, logger=broker_client.QUIET)

    def _fetch_last_write(self) -> PlannedWrite | None:
        """If rows name their topics, the number is at one of them, so all are queried."""
        kafka = client_errors.confluent()
        names = [self.topic] if self.topic else self._reader.list_topics(timeout=INIT_S).topics
        asked = [kafka.TopicPartition(name, 0) for name in names]

        def ask() -> PlannedWrite | None:
            found = self._reader.committed(asked, timeout=INIT_S)
            if wrong := next((one.error for one in found if one.error is not None), None):
                raise kafka.KafkaException(wrong)
            written = [one for one in found if one.offset > 0]
            last = max(written, key=lambda one: one.offset, default=None)
            return last and PlannedWrite.from_words(last.offset - 1, last.metadata)

        made: PlannedWrite | None = client_errors.retry(
            ask, INIT_S, ASK_AGAIN_S, lambda error: error.name() in _PASSING
        )
        return made

    def _send(self, rows: Iterator[Record], batch: PlannedWrite) -> bool:
        """In one transaction; False if there are no rows."""
        first = next(rows, None)
        if first is None:
            return False
        kafka = client_errors.confluent()
        self._producer.begin_transaction()
        try:
            self._produce(first)
            for row in rows:
                self._produce(row)
            self._commit(first[0], batch)
        except kafka.KafkaException as exc:
            raise kafka.KafkaException(self._abort() or exc.args[0]) from exc
        except BaseException:
            self._abort()
            raise
        return True

    def _produce(self, record: Record) -> None:
        topic, value, key, partition, headers = record
        if topic is None:
            raise ConnectorError(
                "null topic present in the data",
                why="The sink has no `topic`, and a row's topic column is null.",
                fix='Set `topic` on the sink, or drop such rows: where("topic IS NOT NULL").',
            )
        while True:
            try:
                self._producer.produce(
                    topic, value, key, -1 if partition is None else partition, headers=headers
                )
                return
            except BufferError:
                self._producer.poll(1.0)  # the queue is full: wait for the broker

    def _commit(self, topic: str, batch: PlannedWrite) -> None:
        kafka = client_errors.confluent()
        at = kafka.TopicPartition(topic, 0, batch.number + 1, batch.in_words())
        group = self._reader.consumer_group_metadata()
        self._retry(lambda: self._producer.send_offsets_to_transaction([at], group))
        self._retry(self._producer.commit_transaction)

    def _retry(self, do: Any) -> None:
        """Retry until the transaction times out at the broker."""
        client_errors.retry(do, TIMEOUT_MS / 1000, ASK_AGAIN_S, lambda error: error.retriable())

    def _abort(self) -> Any:
        """Abort now, so that readers need not wait for the next run. Returns the cause if that
        fails because the producer was fenced: earlier errors do not contain it."""
        kafka = client_errors.confluent()
        try:
            self._producer.abort_transaction(ABORT_S)
        except kafka.KafkaException as exc:
            logger.info("the next run will abort the transaction: %s", exc.args[0].str())
            return exc.args[0] if exc.args[0].fatal() else None
        return None


Record = tuple[Any, Any, Any, Any, Any]  # topic, value, key, partition, headers


def _records(frame: DataFrame, topic: str | None) -> Iterator[Record]:
    for rows in _arrow_batches(frame):
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))

        def cells(name: str, columns: Any = columns, count: int = rows.num_rows) -> list[Any]:
            return columns[name].to_pylist() if name in columns else [None] * count

        topics = [topic] * rows.num_rows if topic else cells("topic")
        named = [
            one and [(header["key"], header["value"]) for header in one] for one in cells("headers")
        ]
        yield from zip(topics, cells("value"), cells("key"), cells("partition"), named, strict=True)


def _arrow_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, task by task, as Arrow; PySpark's toLocalIterator has plain rows only.
    An early end raises, because the last task is marked."""
    import pyarrow as pa
    from pyspark.serializers import NoOpSerializer
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.util import _local_iterator_from_socket

    schema = to_arrow_schema(frame.schema)
    found: Any = frame
    rows = found._jdf.toArrowBatchRdd()
    if rows.getNumPartitions() > TASKS_MAX:
        rows = rows.toJavaRDD().coalesce(TASKS_MAX).rdd()
    served = found.sparkSession.sparkContext._jvm.PythonRDD.toLocalIteratorAndServe(rows, True)
    for chunk in _local_iterator_from_socket(served, NoOpSerializer()):
        yield pa.ipc.read_record_batch(pa.py_buffer(chunk), schema)
