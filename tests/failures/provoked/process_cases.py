"""Failures of whole processes: each case has a JVM of its own, and a supervisor."""

from __future__ import annotations

from headrace.model.runs import Exit
from provoked.case import provoked
from provoked.code_cases import BATCH
from provoked.pipeline_stage import Stage

SCRIPT = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").getOrCreate()
rate = spark.readStream.format("rate").load()
"""


def each_batch(stage: Stage, body: str, toml: str = "") -> Exit:
    stage.give("a")
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return stage.run_alone(BATCH.format(body=indented), toml)


@provoked("jvm-died", "retry", "hs_err_pid", needs=())
def jvm_killed(stage: Stage) -> Exit:
    """The driver's JVM is killed with SIGKILL."""
    return each_batch(
        stage,
        "import os, time\n"
        "os.kill(batch.sparkSession.sparkContext._gateway.proc.pid, 9)\n"
        "time.sleep(60)",
    )


@provoked("out-of-memory", "retry-then-human", "spark.driver.memory", needs=())
def heap_full(stage: Stage) -> Exit:
    """A function for each batch keeps more data in the JVM than fits into its heap."""
    body = (
        "jvm = batch.sparkSession._jvm\n"
        "kept = [jvm.java.nio.ByteBuffer.allocate(64 << 20) for _ in range(100)]"
    )
    return each_batch(stage, body, '[spark]\n"spark.driver.memory" = "512m"\n')


@provoked("vanished", "retry", "Out of memory", needs=())
def driver_killed(stage: Stage) -> Exit:
    """The driver's Python process is killed with SIGKILL."""
    return each_batch(stage, "import os\nos.kill(os.getpid(), 9)")


@provoked("spark-stopped", "human", "stop()", needs=())
def session_stopped_in_a_batch(stage: Stage) -> Exit:
    """A function for each batch stops the Spark session and goes on."""
    return each_batch(stage, "batch.sparkSession.stop()\nbatch.count()")


@provoked("jvm-did-not-start", "retry-then-human", "java -version", needs=())
def java_option_wrong(stage: Stage) -> Exit:
    """An option for Java under [spark] names a library that does not exist."""
    options = '[spark]\n"spark.driver.extraJavaOptions" = "-agentlib:nosuch"\n'
    return each_batch(stage, "batch.count()", options)


@provoked("definition-not-supported", "human", "watermark", "orders.py:5", needs=())
def script_without_watermark(stage: Stage) -> Exit:
    """A script starts an aggregation in append mode without a watermark."""
    code = SCRIPT + (
        'rate.groupBy("value").count().writeStream.format("noop")'
        '.option("checkpointLocation", "own").start().awaitTermination()\n'
    )
    return stage.run_alone(code, file="orders.py")


@provoked("library-missing", "human", "delta", needs=())
def script_without_a_jar(stage: Stage) -> Exit:
    """A script writes to Delta, and its jar is missing."""
    code = SCRIPT + (
        'rate.writeStream.format("delta").option("checkpointLocation", "own")'
        '.start("data/delta").awaitTermination()\n'
    )
    return stage.run_alone(code, file="orders.py")
