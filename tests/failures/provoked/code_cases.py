"""Failures of the user's functions, of records, and of what functions talk to."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.model.runs import Exit
from provoked.case import provoked
from provoked.pipeline_stage import Stage

BATCH = """
def save(batch, batch_id):
{body}

@hr.stream(to=hr.each_batch(save), trigger=hr.available_now())
def out(lines):
    return lines
"""
ROWS = """
@hr.stream(to=hr.parquet("data/out"), trigger=hr.available_now())
def out(lines):
{body}
"""


def each_batch(stage: Stage, body: str) -> Exit:
    stage.give("a", "1", "ten")
    return stage.run(BATCH.format(body=_indented(body)))


def each_row(stage: Stage, body: str) -> Exit:
    stage.give("a", "1", "ten")
    return stage.run(ROWS.format(body=_indented(body)))


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in body.strip("\n").splitlines())


@provoked("user-code", "data", "KeyError: 'price'", "pipelines/orders.py:5", quick=True)
def key_missing_in_each_batch(stage: Stage) -> Exit:
    """A function for each batch looks up a key that does not exist."""
    return each_batch(stage, "prices = {}['price']")


@provoked("user-code", "data", "RuntimeError: not saved", "TypeError")
def exception_raised_from_another(stage: Stage) -> Exit:
    """A function for each batch raises an exception from another one."""
    body = """
try:
    1 + 'a'
except TypeError as error:
    raise RuntimeError('not saved') from error
"""
    return each_batch(stage, body)


@provoked(
    "python-function-failed", "data", "ZeroDivisionError", "pipelines/orders.py:6", quick=True
)
def exception_in_a_udf(stage: Stage) -> Exit:
    """A Python UDF divides by zero."""
    body = """
share = F.udf(lambda v: 1 // (len(v) - len(v)), 'int')
return lines.select(share('value'))
"""
    return each_row(stage, body)


@provoked("python-function-failed", "data", "ValueError", "pipelines/orders.py:8")
def exception_in_an_arrow_udf(stage: Stage) -> Exit:
    """A pandas UDF cannot convert a value."""
    body = """
import pandas as pd
def number(values: pd.Series) -> pd.Series:
    return values.map(int)
return lines.select(F.pandas_udf(number, 'long')('value'))
"""
    return each_row(stage, body)


@provoked("python-function-failed", "data", "LookupError: no rate for ten")
def exception_in_transform_with_state(stage: Stage) -> Exit:
    """A stateful processor raises an exception for a key."""
    stage.give("a", "1", "ten")
    return stage.run(
        """
        from pyspark.sql.streaming import StatefulProcessor

        class Rates(StatefulProcessor):
            def init(self, handle):
                pass

            def handleInputRows(self, key, rows, timers):
                if key[0] == "ten":
                    raise LookupError(f"no rate for {key[0]}")
                yield from ()

            def close(self):
                pass

        @hr.stream(to=hr.parquet("data/out"), trigger=hr.available_now())
        def out(lines):
            return lines.groupBy("value").transformWithStateInPandas(
                Rates(), "value string", "append", "none")
        """
    )


@provoked("network-in-your-code", "retry", "ConnectionRefusedError", quick=True)
def closed_port_in_each_batch(stage: Stage) -> Exit:
    """A function for each batch connects to a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return each_batch(stage, f"import socket\nsocket.create_connection(('127.0.0.1', {port}))")


@provoked("network-in-your-code", "retry", "TimeoutError")
def service_that_never_answers(stage: Stage) -> Exit:
    """A function for each batch waits for a service that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        return each_batch(
            stage,
            f"import socket\nwith socket.create_connection(('127.0.0.1', {port}), 1) as one:\n"
            "    one.recv(1)",
        )


@provoked("network-in-your-code", "retry", "database is locked")
def locked_database_in_each_batch(stage: Stage) -> Exit:
    """A function for each batch writes to an SQLite database that another process has locked."""
    return each_batch(
        stage,
        "import sqlite3\nother = sqlite3.connect('own.db')\nother.execute('create table t (a)')\n"
        "other.execute('begin exclusive')\n"
        "try:\n    sqlite3.connect('own.db', timeout=0.1).execute('insert into t values (1)')\n"
        "finally:\n    other.close()",
    )


@contextmanager
def service(status: int, body: bytes = b"") -> Iterator[str]:
    """A real HTTP server that answers everything with this status."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/rates"
        finally:
            server.shutdown()
            thread.join()


def _fetch(stage: Stage, status: int) -> Exit:
    with service(status) as url:
        return each_batch(stage, f"import urllib.request\nurllib.request.urlopen('{url}').read()")


@provoked("access-denied", "human", "HTTP Error 403")
def service_that_denies_access(stage: Stage) -> Exit:
    """A function for each batch calls a service that answers 403 Forbidden."""
    return _fetch(stage, 403)


@provoked("access-denied", "human", "401")
def service_that_wants_a_login(stage: Stage) -> Exit:
    """A function for each batch calls a service with requests, and gets 401 Unauthorized."""
    with service(401) as url:
        return each_batch(stage, f"import requests\nrequests.get('{url}').raise_for_status()")


@provoked("throttled", "retry")
def service_that_throttles(stage: Stage) -> Exit:
    """A function for each batch calls a service that answers 429 Too Many Requests."""
    return _fetch(stage, 429)


@provoked("storage-hiccup", "retry", "HTTP Error 503")
def service_that_is_unavailable(stage: Stage) -> Exit:
    """A function for each batch calls a service that answers 503 Service Unavailable."""
    return _fetch(stage, 503)


@provoked("bad-record", "data", "ten", "try_cast", "pipelines/orders.py:6", quick=True)
def cast_of_a_bad_value(stage: Stage) -> Exit:
    """A query casts text that is no number."""
    return each_row(stage, "return lines.select(F.col('value').cast('int'))")


@provoked("bad-record", "data", "Division by zero", "try_divide")
def division_by_zero(stage: Stage) -> Exit:
    """A query divides by zero."""
    return each_row(
        stage, "return lines.select(F.lit(1) / (F.length('value') - F.length('value')))"
    )


@provoked("bad-record", "data")
def malformed_json(stage: Stage) -> Exit:
    """A query parses JSON in FAILFAST mode, and a record is torn."""
    stage.give("a", '{"id": 1}', '{"id": ')
    body = (
        "parsed = F.from_json('value', 'id int', {'mode': 'FAILFAST'})\nreturn lines.select(parsed)"
    )
    return stage.run(ROWS.format(body=_indented(body)))


@provoked("worker-lost", "retry-then-human", quick=True)
def killed_python_worker(stage: Stage) -> Exit:
    """A Python worker is killed with SIGKILL, as the kernel does when memory is short."""
    body = """
def die(value):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
return lines.select(F.udf(die, 'int')('value'))
"""
    return each_row(stage, body)


@provoked("out-of-memory", "retry-then-human")
def python_worker_without_memory(stage: Stage) -> Exit:
    """A Python worker needs more memory than its limit allows."""
    body = """
def collect(value):
    import resource
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, before[1]))
    try:
        return len(bytearray(8 << 30))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
return lines.select(F.udf(collect, 'long')('value'))
"""
    return each_row(stage, body)


@provoked("definition-raised", None, "could not be sent to a worker", "pipelines/orders.py")
def function_that_holds_the_session(stage: Stage) -> Exit:
    """A UDF uses the Spark session."""
    stage.give("a")
    return stage.run(
        """
        @hr.stream(to=hr.parquet("data/out"), trigger=hr.available_now())
        def out(spark, lines):
            return lines.select(F.udf(lambda v: spark.range(1).count(), "long")("value"))
        """
    )


@provoked("definition-raised", None, "could not be sent to a worker", "pipelines/orders.py")
def function_that_holds_a_lock(stage: Stage) -> Exit:
    """A UDF refers to a lock, which cannot be pickled."""
    body = """
import threading
lock = threading.Lock()
return lines.select(F.udf(lambda v: lock.locked(), 'boolean')('value'))
"""
    return each_row(stage, body)


@provoked("python-module-missing", "human", "no_such_library")
def module_missing_in_a_worker(stage: Stage) -> Exit:
    """A UDF imports a module that is not installed."""
    body = """
def use(v):
    import no_such_library
return lines.select(F.udf(use, 'int')('value'))
"""
    return each_row(stage, body)


@provoked("python-not-found", "human", "/no/such/python", "PYSPARK_PYTHON")
def python_missing_on_a_worker(stage: Stage) -> Exit:
    """The Python program for workers does not exist."""
    stage.python = "/no/such/python"
    return each_row(stage, "return lines.select(F.udf(lambda v: 1, 'int')('value'))")


@provoked("batch-not-consumed", "human")
def batch_read_in_part(stage: Stage) -> Exit:
    """A function for each batch of an aggregation reads only the first rows."""
    stage.give("a", *map(str, range(50)))
    return stage.run(
        """
        def peek(batch, batch_id):
            batch.limit(1).collect()

        @hr.stream(to=hr.each_batch(peek), trigger=hr.available_now(), mode="update")
        def out(lines):
            return lines.groupBy("value").count()
        """
    )


@provoked("unknown", "unknown", "NoSuchElementException: No value present", "fingerprint")
def exception_from_java_that_nobody_knows(stage: Stage) -> Exit:
    """A function for each batch calls Java, which throws an exception that nobody has seen."""
    return each_batch(
        stage,
        "batch.sparkSession._jvm.java.util.Optional.empty().orElseThrow()",
    )
