"""Spark's own streaming examples, unchanged, under `headrace run FILE -- ARGS`."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from e2e import rig
from headrace.model.events import Event, EventKind
from headrace.project.workspace import open_workspace
from headrace.state import definitions

pytestmark = pytest.mark.e2e
EXAMPLES = Path(pyspark.__file__).parent / "examples/src/main/python/sql/streaming"


class LineServer:
    """Accepts again and again; every connection gets new lines, numbered through."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        self._sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while not self._stop.wait(0.3):
                self._sent += 1
                connection.sendall(f"apple word{self._sent}\n".encode())

    def close(self) -> None:
        self._stop.set()
        self._socket.close()


@pytest.fixture
def lines() -> Iterator[LineServer]:
    server = LineServer()
    yield server
    server.close()


def newest_word(output: Path) -> int:
    return max((int(n) for n in re.findall(r"word(\d+)", output.read_text())), default=0)


@pytest.mark.parametrize(
    ("example", "args"),
    [
        ("structured_network_wordcount.py", []),
        ("structured_network_wordcount_windowed.py", ["10"]),
        ("structured_network_wordcount_session_window.py", []),
    ],
)
def test_a_spark_example_runs_is_watched_and_comes_back(
    example: str, args: list[str], lines: LineServer, tmp_path: Path
) -> None:
    project = rig.Project(tmp_path / "project")
    project.folder.mkdir()
    name = Path(example).stem
    output = tmp_path / "output"
    command = [sys.executable, "-m", "headrace", "--project", str(project.folder), "run"]
    command += [str(EXAMPLES / example), "--", "localhost", str(lines.port), *args]
    with output.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True)
    try:
        rig.eventually("words appear", lambda: newest_word(output) > 0, 60)
        up = ("running", "catching-up")
        rig.eventually("it runs", lambda: project.status(name).get("state") in up, 60)
        status = project.status(name)
        assert [q["note"] for q in status["queries"]] == [
            "starts from scratch: socket, no checkpoint"
        ]
        assert "starts from scratch: socket, no checkpoint" in project.headrace("status")

        before, connections = newest_word(output), lines.connections
        rig.kill(status["pid"], status["jvm_pid"])
        rig.eventually("it connects again", lambda: lines.connections > connections, 60)
        rig.eventually("new words appear", lambda: newest_word(output) > before + 3, 60)
        assert project.status(name)["restarts"] == 1
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(90 * rig.PATIENCE)
    assert code == 0, output.read_text()[-2000:]
    assert project.marked() == []


def test_the_example_that_spark_itself_refuses_is_explained_and_not_tried_again(
    lines: LineServer, tmp_path: Path
) -> None:
    """Session windows in update mode: so it is under plain Spark 4.2 as well."""
    project = rig.Project(tmp_path / "project")
    project.folder.mkdir()
    script = str(EXAMPLES / "structured_sessionization.py")

    said = project.headrace("run", script, "--", "localhost", str(lines.port), code=1)

    assert "not supported for session window" in said
    assert "headrace run" in said
    assert "headrace check" not in said, "that is for pipelines only"
    assert len(list(project.state.glob("runs/*/exit.json"))) == 1
    assert project.marked() == []


LOOP = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

class Batches(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryProgress(self, event):
        with open("heard", "a") as file:
            file.write(f"{event.progress.batchId}\\n")
    def onQueryTerminated(self, event):
        raise ValueError("its own listener")

spark = SparkSession.builder.appName("loop").config("spark.metrics.namespace", "mine").getOrCreate()
spark.streams.addListener(Batches())
Path("incoming").mkdir(exist_ok=True)
for number in range(2):
    Path(f"incoming/{number}").write_text(f"line {number}\\n")
    lines = spark.readStream.text("incoming")
    query = (
        lines.writeStream.format("json").option("path", "out")
        .option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
    )
    query.awaitTermination()
try:
    lines.writeStream.start("out", "json", checkpointLocation="new").awaitTermination()
except Exception as exc:
    Path("refused").write_text(str(exc))
assert len(spark.conf.get("spark.shop.password")) == 10
assert spark.conf.get("spark.sql.streaming.metricsEnabled") == "true"
assert spark.conf.get("spark.metrics.namespace") == "mine"
spark.stop()
sys.exit(int(sys.argv[1]))
"""


def test_a_script_may_start_a_query_again_and_its_exit_code_counts(tmp_path: Path) -> None:
    project = rig.Project(tmp_path / "project")
    project.folder.mkdir()
    (project.folder / "loop.py").write_text(LOOP)
    (project.folder / "secret").write_text("cAnArY7xQ2")
    (project.folder / "headrace.toml").write_text(
        "[restart]\nretries = 0\n[metrics]\ndropwizard = true\n[spark]\n"
        f'"spark.shop.password" = "${{file:{project.folder}/secret}}"\n'
    )

    said = project.headrace("run", "loop.py", "--", "3", code=None)

    exits = [json.loads(p.read_text()) for p in project.state.glob("runs/loop-*/exit.json")]
    assert [e["code"] for e in exits] == [1], said
    assert exits[0]["queries"] == {"query_1": {"batch": 1, "how": "ended"}}
    heard = (project.folder / "heard").read_text().splitlines()
    assert [number for number in heard if number in "01"] == ["0", "1"], "its own listener"
    kept = [path for path in project.state.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"cAnArY7xQ2" in path.read_bytes()]
    files = (project.folder / "out").glob("*.json")
    lines = [line for file in files for line in file.read_text().splitlines(keepends=True)]
    assert sorted(lines) == ['{"value":"line 0"}\n', '{"value":"line 1"}\n']
    assert (
        "has batches up to 1, but the checkpoint is new" in (project.folder / "refused").read_text()
    )
    assert project.marked() == []
    (run,) = project.state.glob("runs/loop-*/run.json")
    events = run.with_name("events.jsonl").read_text().splitlines()
    started = [e for e in map(Event.from_line, events) if e.kind == EventKind.QUERY_STARTED]
    assert [one.data["guarantee"] for one in started] == ["exactly-once"] * 2
    work = open_workspace(project.folder, "dev")
    found = definitions.read(work.places, json.loads(run.read_text())["version"], "dev", "loop")
    assert found is not None
    (query,) = found.queries
    assert query.inputs == ("text:incoming",)
    assert query.sink == {"kind": "json", "path": str(project.folder / "out")}
    assert query.checkpoint == str(project.folder / "checkpoint")
    assert query.trigger == {"kind": "available-now"}


UNTIMELY = """
import sys, time
from pyspark.sql import SparkSession

def slowly(frame, batch_id):
    time.sleep(float(sys.argv[1]))
    frame.write.mode("append").text("out")

spark = SparkSession.builder.appName("untimely").getOrCreate()
lines = spark.readStream.text("incoming")
query = (
    lines.writeStream.queryName("lines").foreachBatch(slowly)
    .option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
)
"""
WAITING = "query.awaitTermination()\n"
STOPPING = "spark.stop()\n"


def test_a_script_that_stops_spark_too_early_is_told_to_wait_and_one_that_ends_keeps_its_queries(
    tmp_path: Path,
) -> None:
    project = rig.Project(tmp_path / "project")
    project.folder.mkdir()
    script = project.folder / "untimely.py"

    project.give("one")
    script.write_text(UNTIMELY + STOPPING)
    told = project.headrace("run", "untimely.py", "--", "2", code=2)
    assert "stopped its Spark session before lines finished a batch" in told
    assert f"untimely.py:{len(UNTIMELY.splitlines()) + 1}" in told
    assert "query.awaitTermination()" in told
    assert len(list(project.state.glob("runs/*/exit.json"))) == 1, "trying again cannot help"

    script.write_text(UNTIMELY + WAITING + STOPPING)  # as it was told
    project.give("two")
    project.headrace("run", "untimely.py", "--", "0")

    script.write_text(UNTIMELY)
    project.give("three")
    project.headrace("run", "untimely.py", "--", "0")
    kept = project.headrace("events", "untimely")
    assert "the script has finished; Headrace keeps its queries running: lines" in kept

    written = [file.read_text() for file in (project.folder / "out").glob("*.txt")]
    assert sorted("".join(written).split()) == ["one", "three", "two"]
    assert project.marked() == []


def test_a_script_that_asks_for_a_library_of_another_spark_is_refused_before_java_starts(
    tmp_path: Path,
) -> None:
    project = rig.Project(tmp_path / "project")
    project.folder.mkdir()
    wrong = "org.apache.spark:spark-avro_2.12:3.5.1"
    (project.folder / "old.py").write_text(
        "from pyspark.sql import SparkSession\n"
        f'SparkSession.builder.config("spark.jars.packages", "{wrong}").getOrCreate()\n'
    )

    told = project.headrace("run", "old.py", code=2)

    assert f"spark.jars.packages contains {wrong}" in told
    assert f"use org.apache.spark:spark-avro_2.13:{pyspark.__version__}" in told
    assert "old.py:2" in told
    assert "run started" not in told


FACTS = """
import atexit, logging, sys, threading, time, __main__

def typed(number: int) -> None: ...

def late():
    time.sleep(0.2)
    sys.stdout.write("a thread has ended\\n")

def pooled():
    from concurrent.futures import ThreadPoolExecutor
    print(ThreadPoolExecutor().submit(str, "a pool that stays open").result())

def hook(kind, value, trace):
    sys.stdout.write(f"{kind.__name__}: {value} in line {trace.tb_lineno}\\n")

root = logging.getLogger()
print(root.handlers, root.level, sys.argv, __file__, __name__, sorted(globals()))
print(__main__.__dict__ is globals(), type(__builtins__), typed.__annotations__, __spec__)
logging.basicConfig(level=logging.INFO, stream=sys.stdout, force=False)
logging.getLogger("mine").info("logged")
atexit.register(print, "an exit function")
threading.Thread(target=late).start()
pooled()
sys.excepthook = hook
if len(sys.argv) > 2:
    raise ValueError("at the end")
"""


@pytest.mark.parametrize(("args", "code"), [(["one"], 0), (["one", "two"], 1)])
def test_a_script_finds_python_as_if_it_ran_alone(
    args: list[str], code: int, tmp_path: Path
) -> None:
    project = rig.Project(tmp_path / "project")
    project.folder.mkdir()
    script = project.folder / "facts.py"
    script.write_text(FACTS)
    (project.folder / "headrace.toml").write_text("[restart]\nretries = 0\n")
    plain = [sys.executable, str(script), *args]
    alone = subprocess.run(plain, capture_output=True, text=True, check=False)

    project.headrace("run", "facts.py", "--", *args, code=code)

    log = next(project.state.glob("runs/facts-*/driver.log")).read_text()
    assert "logged" in alone.stdout
    assert code == alone.returncode
    expected = alone.stdout.splitlines()
    if code:
        expected.remove("a thread has ended")  # a run that has failed waits for nothing
    assert set(expected) <= set(log.splitlines())
