"""Exactly once into Kafka: a batch is one transaction of one producer, which lives in the driver.

In the same transaction the number of the batch is kept as a position of the consumer group
`headrace-QUERY_ID`, and beside it a mark of what the batch was planned to read. So a batch that
comes again after a failure is known, and its rows are not sent twice. The producer's transactional
id is the query's, too: a new run ends what its predecessor has left open, and a predecessor that
still lives can commit nothing any more.

Rows come out of Spark as Arrow batches, one task's at a time: that is what it needs of memory.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from headrace.connectors import kafkabroker, kafkafailures, kafkaoptions
from headrace.errors import ConnectorError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TIMEOUT_MS = 900_000  # for a whole batch; the most that a broker allows by default
INIT_S = 60.0
ABORT_S = 10.0
ASK_AGAIN_S = 0.2
TASKS_MAX = 16  # each is a job of its own, and its rows are in memory at once
_QUERY_ID = "sql.streaming.queryId"  # Spark sets it in the thread that runs a batch
_QUEUED_KB = 131_072
_MARK_CHARS = 16
_MARK = re.compile(rf", of ([0-9a-f]{{{_MARK_CHARS}}})$")
# Who keeps the positions of a group is being decided: at a broker's start, or its first group ever.
_PASSING = (
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "UNSTABLE_OFFSET_COMMIT",
)
logger = logging.getLogger(__name__)


def settings(client: Mapping[str, str], options: Mapping[str, str], name: str) -> dict[str, Any]:
    """Of the producer. `options` are as Spark's connector takes them."""
    return {
        **client,
        "transaction.timeout.ms": TIMEOUT_MS,
        "partitioner": "murmur2_random",  # a key goes where the Java client sends it
        "queue.buffering.max.kbytes": _QUEUED_KB,
        "log_level": 0,
        **kafkaoptions.translated(options),
        "transactional.id": name,
    }


def reader_settings(
    client: Mapping[str, str], options: Mapping[str, str], group: str
) -> dict[str, Any]:
    """Of the consumer beside it, which has to come in as the producer does. What is a producer's
    alone, librdkafka passes over."""
    return {
        **client,
        "log_level": 0,
        **kafkaoptions.translated(options),
        "group.id": group,
        "isolation.level": "read_committed",
    }


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch, and a mark of what it was planned to read; None: nobody knows."""

    number: int
    mark: str | None = None

    def in_words(self) -> str:
        """As it stands beside the position; `of_words` reads it."""
        return f"batch {self.number} is written" + (f", of {self.mark}" if self.mark else "")

    @classmethod
    def of_words(cls, number: int, words: str | None) -> Planned:
        found = _MARK.search(words or "")  # runs before there were marks have left none
        return cls(number, found[1] if found else None)


def planned(checkpoint: str | None, batch: int) -> Planned:
    """Spark writes offsets/N once, before batch N first runs: planned anew it is another file."""
    parts = urlsplit(checkpoint or "")
    if not checkpoint or parts.scheme not in ("", "file"):
        return Planned(batch)
    folder = Path(unquote(parts.path) if parts.scheme else checkpoint)
    try:
        content = (folder / "offsets" / str(batch)).read_bytes()
    except OSError:
        return Planned(batch)
    return Planned(batch, hashlib.sha256(content).hexdigest()[:_MARK_CHARS])


def is_new(last: Planned | None, batch: Planned) -> bool:
    """Whether the rows of a batch are still to be written; `last` is the last one that was."""
    if last is None or batch.number > last.number:
        return True
    is_known = last.mark is not None and batch.mark is not None
    is_other = batch.number < last.number or (is_known and last.mark != batch.mark)
    if not is_other:
        return False
    other = "another one of that number" if batch.number == last.number else str(batch.number)
    raise ConnectorError(
        f"Kafka has batch {last.number} of this query, and its checkpoint goes on with {other}.",
        why="The checkpoint was set back. What these batches had may not be what they have now, so "
        "rows would be left out or written twice.",
        fix="Take the newer checkpoint back, or give the query a new `checkpoint`: it then is "
        "another query, and writes again what it reads.",
        slug="sink-is-ahead",
    )


@dataclass
class Transactions:
    """The sink of one query in one run. Its producer is made with the first batch, when Spark says
    which query it is."""

    client: Mapping[str, str]
    options: Mapping[str, str]
    topic: str | None
    checkpoint: str | None = None
    _producer: Any = field(default=None, init=False)
    _reader: Any = field(default=None, init=False)
    _group: str = field(default="", init=False)
    _last: Planned | None = field(default=None, init=False)

    def take(self, frame: DataFrame, batch: int) -> None:
        """For `foreachBatch`."""
        if self._producer is None:
            self._begin(frame)
        now = planned(self.checkpoint, batch)
        is_wanted = is_new(self._last, now)
        if not is_wanted:
            logger.info("batch %s was written before the failure: not again", batch)
        rows = _records(frame, self.topic)
        if not is_wanted:
            for _ in rows:  # what Spark counts and remembers of a batch, it does while it is read
                pass
        elif self._send(rows, now):
            self._last = now

    def _begin(self, frame: DataFrame) -> None:
        id_ = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if not id_:
            raise ConnectorError("Spark does not say which query the batch is of.")
        self._group = f"headrace-{id_}"
        producer = self._made()
        self._reader = self._knows()
        # Only after this, which ends a transaction that the last run has left open, is the
        # position sure.
        producer.init_transactions(INIT_S)
        self._last = self._last_committed()
        self._producer = producer

    def _made(self) -> Any:
        kafka = kafkafailures.confluent()
        try:
            return kafka.Producer(
                settings(self.client, self.options, self._group), logger=kafkabroker.QUIET
            )
        except kafka.KafkaException as exc:
            raise kafkaoptions.unfit(exc.args[0].str()) from exc

    def _knows(self) -> Any:
        """A consumer that never reads: Kafka's client keeps and asks for positions only by one."""
        own = reader_settings(self.client, self.options, self._group)
        return kafkafailures.confluent().Consumer(own, logger=kafkabroker.QUIET)

    def _last_committed(self) -> Planned | None:
        """Rows that name their topics leave the number at one of these, so all are asked."""
        kafka = kafkafailures.confluent()
        names = [self.topic] if self.topic else self._reader.list_topics(timeout=INIT_S).topics
        asked = [kafka.TopicPartition(name, 0) for name in names]
        deadline = time.monotonic() + INIT_S
        while True:
            try:
                found = self._reader.committed(asked, timeout=INIT_S)
                if wrong := next((one.error for one in found if one.error is not None), None):
                    raise kafka.KafkaException(wrong)
                written = [one for one in found if one.offset > 0]
                last = max(written, key=lambda one: one.offset, default=None)
                return last and Planned.of_words(last.offset - 1, last.metadata)
            except kafka.KafkaException as exc:
                is_passing = exc.args[0].name() in _PASSING
                if not is_passing or time.monotonic() > deadline:
                    raise
            time.sleep(ASK_AGAIN_S)

    def _send(self, rows: Iterator[Record], batch: Planned) -> bool:
        """In one transaction; False: there was nothing to send."""
        first = next(rows, None)
        if first is None:
            return False
        kafka = kafkafailures.confluent()
        is_open = True
        self._producer.begin_transaction()
        try:
            self._produce(first)
            for row in rows:
                self._produce(row)
            self._commit(first[0], batch)
            is_open = False
        except kafka.KafkaException as exc:
            is_open = False
            raise kafka.KafkaException(self._abort() or exc.args[0]) from exc
        finally:
            if is_open:
                self._abort()
        return True

    def _produce(self, record: Record) -> None:
        topic, value, key, partition, headers = record
        if topic is None:
            raise ConnectorError(
                "null topic present in the data",
                why="The sink has no `topic`, and the row's column topic is null.",
                fix='Set `topic` on the sink, or drop such rows: where("topic IS NOT NULL").',
            )
        while True:
            try:
                self._producer.produce(
                    topic, value, key, -1 if partition is None else partition, headers=headers
                )
                return
            except BufferError:
                self._producer.poll(1.0)  # as much waits as may; a broker takes it, or times out

    def _commit(self, topic: str, batch: Planned) -> None:
        kafka = kafkafailures.confluent()
        at = kafka.TopicPartition(topic, 0, batch.number + 1, batch.in_words())
        group = self._reader.consumer_group_metadata()
        self._again(lambda: self._producer.send_offsets_to_transaction([at], group))
        self._again(self._producer.commit_transaction)

    def _again(self, do: Any) -> None:
        """Until it is done, or cannot be any more: then the broker has ended the transaction."""
        kafka = kafkafailures.confluent()
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            try:
                do()
                return
            except kafka.KafkaException as exc:
                if not exc.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _abort(self) -> Any:
        """So that readers need not wait for the next run, which would end it too. Gives the reason
        if a producer that was fenced cannot: before that it said only that it is broken."""
        kafka = kafkafailures.confluent()
        try:
            self._producer.abort_transaction(ABORT_S)
        except kafka.KafkaException as exc:
            logger.info("the transaction is left to the next run: %s", exc.args[0].str())
            return exc.args[0] if exc.args[0].fatal() else None
        return None


Record = tuple[Any, Any, Any, Any, Any]  # topic, value, key, partition, headers


def _records(frame: DataFrame, topic: str | None) -> Iterator[Record]:
    for rows in _arrow(frame):
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))

        def cells(name: str, columns: Any = columns, count: int = rows.num_rows) -> list[Any]:
            return columns[name].to_pylist() if name in columns else [None] * count

        topics = [topic] * rows.num_rows if topic else cells("topic")
        named = [
            one and [(header["key"], header["value"]) for header in one] for one in cells("headers")
        ]
        yield from zip(topics, cells("value"), cells("key"), cells("partition"), named, strict=True)


def _arrow(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, task by task: PySpark itself has this for plain rows only. Ends early
    only by an error: the last task is marked as the last."""
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
