"""A limit for a whole conversation with a server, which may send a byte now and then forever."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from types import TracebackType


class Deadline:
    """Ends the watched connection when the time is over: the read that waits for it then fails.

    Timeouts of a socket begin again with every byte, so they are not enough.
    """

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._lock = threading.Lock()
        self._watched: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def watch(self, sock: socket.socket) -> None:
        """A second descriptor of the connection stays valid when TLS takes over the first."""
        with self._lock:
            self._close()
            self._watched = socket.socket(fileno=os.dup(sock.fileno()))
        if self.is_over:
            self._end()

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._close()

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            if self._watched is not None:
                with contextlib.suppress(OSError):  # the server was faster
                    self._watched.shutdown(socket.SHUT_RDWR)

    def _close(self) -> None:
        if self._watched is not None:
            self._watched.close()
            self._watched = None
