"""The log generator: writes a file of lines to incoming/ every second and records it in
truth.jsonl, or sends the same lines to a topic, spread over the second.

    python -m headrace.demo.generator FOLDER --rate N --seed S [--servers HOST:PORT --topic NAME]

Started by `headrace demo` as a child process. It ends when its standard input does, so it also ends
when the demo is killed. Invariant: a file appears complete, by a rename, and never changes; every
file has its line in truth.jsonl, at the latest when the next generator starts.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Self

from headrace.demo import input_reader, log_lines
from headrace.demo.paths import DemoPaths
from headrace.errors import Error
from headrace.json_file import read_json

_NAME = re.compile(r"logs-(\d{9})\.json")
FLUSH_S = 60.0
SLICES = 20  # portions per second in which lines are sent to the topic
Send = Callable[[Sequence[bytes]], None]


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace.demo.generator", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", type=int, required=True, help="lines a second")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--servers", help="send to Kafka instead of writing files")
    parser.add_argument("--topic")
    given = parser.parse_args(args)
    places = DemoPaths(given.folder.resolve())
    places.own.mkdir(parents=True, exist_ok=True)
    with places.generator_lock.open("a") as lock:
        # The generator of a killed demo may still be finishing a file.
        while not _is_ours(lock):
            if _is_over(time.monotonic() + 0.1):
                return 0
        if given.servers:
            with TopicWriter(given.servers, given.topic) as writer:
                _generate(places, given.rate, given.seed, writer.send)
        else:
            _generate(places, given.rate, given.seed)
    return 0


def _is_ours(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _generate(places: DemoPaths, rate: int, seed: int, send: Send | None = None) -> None:
    tick = next_tick(places)
    due = time.monotonic()
    while True:
        due = max(due + 1.0, time.monotonic())  # skip missed seconds: no bursts
        if _is_over(due):
            return
        write(places, tick, time.time(), rate_of(places, rate), seed, send)
        tick += 1


def next_tick(places: DemoPaths) -> int:
    """The next second. Records files that a killed generator has not recorded."""
    places.own.mkdir(parents=True, exist_ok=True)
    places.incoming.mkdir(parents=True, exist_ok=True)
    _drop_torn_line(places.truth)
    recorded = {str(entry["file"]) for entry in input_reader.entries(places.truth)}
    names = sorted(p.name for p in places.incoming.iterdir() if _NAME.fullmatch(p.name))
    for name in names:
        if name not in recorded:
            _append(places.truth, input_reader.entry_from_file(places.incoming / name))
    numbers = [int(match[1]) for name in {*names, *recorded} if (match := _NAME.fullmatch(name))]
    return max(numbers, default=-1) + 1


def write(
    places: DemoPaths, tick: int, now: float, rate: int, seed: int, send: Send | None = None
) -> str:
    """Write (or send) and record one second of logs. Returns the name of the file."""
    made = log_lines.second(tick, now, rate, seed)
    name = f"logs-{tick:09d}.json"
    if send is not None:
        send(made.lines)
    else:
        hidden = places.incoming / f".{name}.tmp"
        hidden.write_bytes(b"".join(line + b"\n" for line in made.lines))
        os.replace(hidden, places.incoming / name)
    _append(places.truth, made.truth(name))
    return name


class TopicWriter:
    """Sends the lines of a second to a topic. The topic itself records them; truth.jsonl only
    counts what was sent."""

    def __init__(self, servers: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 2}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the last records: the count begins when this process has ended."""
        self._producer.flush(FLUSH_S)
        self._producer.purge()  # the broker did not answer in time: give up

    def send(self, made: Sequence[bytes]) -> None:
        started = time.monotonic()
        for number, line in enumerate(made):
            due = started + number * SLICES // len(made) * (0.9 / SLICES)
            time.sleep(max(0.0, due - time.monotonic()))
            self._send(line)

    def _send(self, line: bytes) -> None:
        """Waits while the queue is full because the broker is down."""
        while True:
            try:
                self._producer.produce(self._topic, line)
                return
            except BufferError:
                if _is_over(time.monotonic() + 0.5):
                    return
            finally:
                self._producer.poll(0)


def rate_of(places: DemoPaths, otherwise: int) -> int:
    """The current rate: the demo lowers it on a machine that does not keep up."""
    try:
        rate = (read_json(places.control) or {}).get("rate")
    except Error:
        return otherwise
    return rate if isinstance(rate, int) and 0 < rate <= otherwise else otherwise


def _append(path: Path, entry: dict[str, object]) -> None:
    with path.open("ab") as file:
        file.write(json.dumps(entry).encode() + b"\n")


def _drop_torn_line(path: Path) -> None:
    """The writer was killed while writing it. The file that it described is recorded again."""
    if path.exists():
        content = path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end != len(content):
            os.truncate(path, end)


def _is_over(due: float) -> bool:
    """Wait until the next file is due. True if the parent process has ended."""
    while (left := due - time.monotonic()) > 0:
        ready, _, _ = select.select([sys.stdin], [], [], left)
        if ready and not os.read(sys.stdin.fileno(), 1024):
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
