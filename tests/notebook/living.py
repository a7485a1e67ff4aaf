"""A real kernel as a page would use it: cells are executed, outputs change in place, the kernel is
interrupted. Used by the tests of this folder."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.manager import KernelManager

DEADLINE_S = 90.0


@dataclass
class Ran:
    """What one execution gave: its reply, and the ids of what it has shown, in order."""

    status: str = ""
    error: str = ""
    result: str = ""
    shown: list[str] = field(default_factory=list)


class Kernel:
    def __init__(self, folder: Path) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self.temporary = folder / "tmp"  # of its own: others display things at the same time
        self.temporary.mkdir()
        own = {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(self.temporary)}
        self._manager.start_kernel(cwd=str(folder), env={**os.environ, **own})
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=DEADLINE_S)
        self.outputs: dict[str, dict[str, Any]] = {}  # by display id, as they are now
        self._runs: dict[str, Ran] = {}
        self._idle: set[str] = set()
        self.is_open = True

    @property
    def pid(self) -> int:
        provisioner: Any = self._manager.provisioner
        return int(provisioner.pid)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def begin(self, code: str, cell: str | None = None) -> str:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        metadata = {"cellId": cell} if cell else {}
        message = self._client.session.msg("execute_request", content, metadata=metadata)
        self._client.shell_channel.send(message)
        made = str(message["header"]["msg_id"])
        self._runs[made] = Ran()
        return made

    def end(self, made: str) -> Ran:
        self.poll(lambda: made in self._idle, f"the cell does not end: {self._runs[made]}")
        return self._runs[made]

    def run(self, code: str, cell: str | None = None) -> Ran:
        ran = self.end(self.begin(code, cell))
        assert not ran.error, ran.error
        return ran

    def click(self, widget: str) -> None:
        data = {"method": "custom", "content": {"event": "click"}}
        content = {"comm_id": widget, "data": data}
        self._client.shell_channel.send(self._client.session.msg("comm_msg", content))

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def poll(self, what: Callable[[], object], why: str) -> None:
        """Take messages until it is so."""
        deadline = time.monotonic() + DEADLINE_S
        while not what():
            assert time.monotonic() < deadline, why
            try:
                self._take(self._client.get_iopub_msg(timeout=0.05))
            except queue.Empty:
                continue

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._client.stop_channels()
        self._manager.shutdown_kernel()

    def _take(self, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        parent = message["parent_header"].get("msg_id", "")
        ran = self._runs.get(parent, Ran())
        if kind in ("display_data", "update_display_data"):
            key = content["transient"]["display_id"]
            self.outputs[key] = content["data"]
            if kind == "display_data":
                ran.shown.append(key)
        elif kind == "execute_result":
            ran.result = content["data"]["text/plain"]
        elif kind == "error":
            ran.error = f"{content['ename']}: {content['evalue']}"
        elif kind == "status" and content["execution_state"] == "idle":
            self._idle.add(parent)
