"""A driver without Spark: a real process that keeps a driver's side of the bargain.

What it does is said by a line `# does: WORD` in the deployed copy of the pipeline's file.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from headrace import process_identity
from headrace.define import deployed_code
from headrace.json_file import read_json, write_json
from headrace.model.events import Event, EventKind
from headrace.model.runs import Exit, RunSpec
from headrace.model.state_paths import StatePaths

ERROR = {
    "slug": "divide", "what": "Division by zero.", "why": "n is 0", "where": "hello.py:6",
    "fix": "guard n",
}  # fmt: skip
PROBLEMS = [
    {"slug": "unknown-input", "what": 'There is no input "lins".', "where": "hello.py:4"},
    {"slug": "bad-mode", "what": "Mode complete does not work here.", "where": "hello.py:9"},
]


class Driver:
    def __init__(self, folder: Path) -> None:
        body = read_json(folder / "run.json")
        assert body is not None
        self.spec = RunSpec.from_json(body)
        self.places = StatePaths(Path(self.spec.state))
        self.folder = folder
        self.signals = 0
        signal.signal(signal.SIGTERM, self.signalled)

    def signalled(self, *_: object) -> None:
        self.signals += 1

    def does(self, file: str) -> str:
        text = deployed_code.code_path(self.places, self.spec.version, file).read_text()
        found = re.search(r"# does: (\w+)", text)
        return found[1] if found else "steady"

    def tell(self, kind: EventKind, query: str | None = None, **data: Any) -> None:
        with (self.folder / "events.jsonl").open("a") as file:
            file.write(Event(time.time(), kind, query, data).to_line() + "\n")

    def end(self, ending: str, code: int, **facts: Any) -> None:
        exit_ = Exit(ending, code, time.time(), **facts)
        write_json(self.folder / "exit.json", exit_.to_json())
        self.tell(EventKind.EXITED, **exit_.to_json())
        sys.exit(code)

    def run(self) -> None:
        me = process_identity.identify(os.getpid())
        assert me is not None
        write_json(self.folder / "process.json", me.to_json())
        if self.spec.define:
            self.define()
        print(f"hello from {self.spec.pipeline} {' '.join(self.spec.args)}", flush=True)
        self.tell(EventKind.RUN_STARTED, pid=me.pid, jvm_pid=None, spark_version="fake")
        what = self.does(self.spec.file)
        if what == "refuse":
            self.end("refused", 2, error=PROBLEMS[0], problems=PROBLEMS)
        self.tell(EventKind.DEFINED, queries=["kept"])
        self.tell(EventKind.QUERY_STARTED, "kept", guarantee="exactly-once")
        if what == "fail":
            self.tell(EventKind.QUERY_TERMINATED, "kept", error=ERROR["what"])
            facts = {"kind": "data", "fingerprint": "f", "query": "kept", "batch": 1}
            self.end("failed", 1, error=ERROR, **facts)
        if what == "finish":
            self.progress(0)
            self.end("finished", 0, queries={"kept": {"batch": 0, "how": "ended"}})
        self.work(what)

    def progress(self, batch: int) -> None:
        told = {"batchId": batch, "numInputRows": 1, "sources": [], "sink": {}}
        self.tell(EventKind.PROGRESSED, "kept", progress=told)
        status = {"data_available": False, "trigger_active": False, "message": "Waiting"}
        self.tell(EventKind.SAMPLED, queries={"kept": status})

    def work(self, what: str) -> None:
        batch = -1
        while not self.signals:
            batch += 1
            self.progress(batch)
            if what == "talk":
                print(f"batch {batch}", flush=True)
            time.sleep(0.05)
        self.tell(EventKind.DRAIN_STARTED, deadline_s=30, reason="asked")
        while what == "slow" and self.signals < 2:
            time.sleep(0.02)
        how = "cut" if self.signals > 1 else "clean"
        self.tell(EventKind.QUERY_STOPPED, "kept", batch=batch, how=how)
        ending, code = ("cut", 1) if how == "cut" else ("drained", 0)
        self.end(ending, code, queries={"kept": {"batch": batch, "how": how}})

    def define(self) -> None:
        for file in self.spec.define:
            if self.does(file) == "refuse":
                self.end("refused", 2, error=PROBLEMS[0], problems=PROBLEMS)
            self.write_definition(file)
        self.end("finished", 0)

    def write_definition(self, file: str) -> None:
        source = {"name": "lines", "kind": "source", "place": f"{file}:1", "inputs": []}
        view = {"name": "words", "kind": "view", "place": f"{file}:2", "inputs": ["lines"]}
        view["engines"] = ["arrow", "spark"]
        query = {
            "name": "kept", "place": f"{file}:4", "inputs": ["words"], "mode": "append",
            "sink": {"kind": "parquet", "path": "data/words"}, "checkpoint": "checkpoints/x",
            "trigger": {"kind": "every", "seconds": 2.0}, "guarantee": "exactly-once",
            "guarantee_why": "the sink's log knows every batch",
        }  # fmt: skip
        name = Path(file).stem
        body = {
            "pipeline": name, "profile": self.spec.profile, "version": self.spec.version,
            "file": file, "nodes": [source, view], "queries": [query],
            "warnings": [{"slug": "no-watermark", "what": "State is never cleaned up."}],
        }  # fmt: skip
        write_json(self.places.definition(self.spec.version, self.spec.profile, name), body)


if __name__ == "__main__":
    Driver(Path(sys.argv[1])).run()
