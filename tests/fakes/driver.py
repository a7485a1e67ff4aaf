"""A driver without Spark: real process, real files, and any behaviour a test asks for.

Called as the real one: `python driver.py RUN_DIR`. How it behaves stands in PROJECT/behaviour.json,
{"PIPELINE": {"mode": …}}: idle (default), mute, hang, fail, refuse, finish, deaf, offspring, slow.
`batch` and `beat` are added to every progress event and heartbeat, `spark` to the progress in it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from headrace import process_identity
from headrace.json_file import read_json, write_json
from headrace.model.events import Event, EventKind
from headrace.model.runs import Ending, Exit, RunSpec

BEAT_S = 0.2
terms = 0


def on_term(number: int, frame: FrameType | None) -> None:
    global terms
    terms += 1


def main() -> None:
    run_dir = Path(sys.argv[1])
    spec = RunSpec.from_json(read_json(run_dir / "run.json") or {})
    asked = json.loads((Path(spec.project) / "behaviour.json").read_text())
    behaviour = asked.get(spec.pipeline, {})
    mode = behaviour.get("mode", "idle")
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "deaf" else on_term)
    if behaviour.get("late"):  # dies or lives before it could say who it is
        time.sleep(behaviour["late"])
    me = process_identity.identify(os.getpid())
    assert me is not None
    write_json(run_dir / "process.json", me.to_json())
    print(f"driver of {spec.pipeline}, {mode}", flush=True)
    events = (run_dir / "events.jsonl").open("a", buffering=1)

    def tell(event: EventKind, on: str | None = None, /, **data: object) -> None:
        events.write(Event(time.time(), event, on, data).to_line() + "\n")

    def leave(ending: Ending, code: int, **more: object) -> None:
        exit_ = Exit(ending, code, time.time(), **more)
        tell(EventKind.EXITED, **exit_.to_json())
        write_json(run_dir / "exit.json", exit_.to_json())
        sys.exit(code)

    if mode == "mute":
        time.sleep(600)
    tell(EventKind.RUN_STARTED, pid=os.getpid(), jvm_pid=None)
    tell(EventKind.DEFINED, queries=["q"])
    if mode == "refuse":
        leave(Ending.REFUSED, 3, error={"slug": "no-java", "what": "There is no Java."})
    tell(EventKind.QUERY_STARTED, "q", id="1", guarantee="exactly-once")
    if mode == "offspring":  # as pyspark.daemon: same session, a process group of its own
        code = "import os, time; os.setpgid(0, 0); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code])
    if mode == "fail":
        tell(EventKind.SAMPLED, queries={})
        tell(EventKind.QUERY_TERMINATED, "q", error="boom")
        error = {"slug": "boom", "what": "The query failed."}
        facts = {"query": "q", "batch": 3, "kind": behaviour.get("kind", "data")}
        leave(Ending.FAILED, 1, error=error, fingerprint="f", failure="boom", **facts)
    if mode == "finish":
        tell(EventKind.PROGRESSED, "q", progress={"batchId": 0, "numInputRows": 5})
        leave(Ending.FINISHED, 0)
    batch = 0
    while not terms:
        status = {"trigger_active": mode == "stall", "message": mode}
        tell(EventKind.SAMPLED, queries={"q": status}, **behaviour.get("beat", {}))
        if mode == "hang":
            time.sleep(600)
        if mode != "stall" or batch == 0:
            done = {"batchId": batch, "numInputRows": 2, **behaviour.get("spark", {})}
            tell(EventKind.PROGRESSED, "q", progress=done, **behaviour.get("batch", {}))
            batch += 1
        time.sleep(behaviour.get("beat_s", BEAT_S))
    tell(EventKind.DRAIN_STARTED, reason="asked to stop")
    if mode == "slow":
        while terms < 2:
            time.sleep(0.02)
        leave(Ending.CUT, 1, queries={"q": {"batch": batch, "how": "cut"}})
    tell(EventKind.QUERY_STOPPED, "q", batch=batch, how="clean")
    leave(Ending.DRAINED, 0, queries={"q": {"batch": batch, "how": "clean"}})


if __name__ == "__main__":
    main()
