"""The log generator: once a second a file of lines in incoming/, told of in truth.jsonl; or the
same lines into a topic, spread over the second.

    python -m headrace.demo.generator FOLDER --rate N --seed S [--servers HOST:PORT --topic NAME]

Started by `headrace demo` as a process of its own. It ends when its standard input does, so also
when the demo was killed. Invariant: a file appears whole, by a rename, and never changes; every
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

from headrace.demo import lines, truth
from headrace.demo.places import DemoPlaces
from headrace.errors import Error
from headrace.jsonfile import read_json

_NAME = re.compile(r"logs-(\d{9})\.json")
FLUSH_S = 60.0
SLICES = 20  # of a second, in a topic: logs come when they come
Write = Callable[[DemoPlaces, int, float, int, int], str]


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headrace.demo.generator", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rate", type=int, required=True, help="lines a second")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--servers", help="of Kafka, in the place of files")
    parser.add_argument("--topic")
    given = parser.parse_args(args)
    places = DemoPlaces(given.folder.resolve())
    places.own.mkdir(parents=True, exist_ok=True)
    with places.generator_lock.open("a") as lock:
        # One whose demo was killed may have a file to finish.
        while not _is_ours(lock):
            if _is_over(time.monotonic() + 0.1):
                return 0
        if given.servers:
            with Sending(given.servers, given.topic) as sending:
                _go_on(places, given.rate, given.seed, sending.second)
        else:
            _go_on(places, given.rate, given.seed, write)
    return 0


def _is_ours(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _go_on(places: DemoPlaces, rate: int, seed: int, write: Write) -> None:
    tick = next_tick(places)
    due = time.monotonic()
    while True:
        due = max(due + 1.0, time.monotonic())  # a second that was missed stays missed: no bursts
        if _is_over(due):
            return
        write(places, tick, time.time(), rate_of(places, rate), seed)
        tick += 1


def next_tick(places: DemoPlaces) -> int:
    """The second to go on with. A file that a killed generator did not account for is so now."""
    places.own.mkdir(parents=True, exist_ok=True)
    places.incoming.mkdir(parents=True, exist_ok=True)
    _drop_torn_line(places.truth)
    told = {str(entry["file"]) for entry in truth.entries(places.truth)}
    names = sorted(p.name for p in places.incoming.iterdir() if _NAME.fullmatch(p.name))
    for name in names:
        if name not in told:
            _append(places.truth, truth.found_in(places.incoming / name))
    numbers = [int(match[1]) for name in {*names, *told} if (match := _NAME.fullmatch(name))]
    return max(numbers, default=-1) + 1


def write(places: DemoPlaces, tick: int, now: float, rate: int, seed: int) -> str:
    """One second of logs. Returns the file's name."""
    made = lines.second(tick, now, rate, seed)
    name = f"logs-{tick:09d}.json"
    hidden = places.incoming / f".{name}.tmp"
    hidden.write_bytes(b"".join(line + b"\n" for line in made.lines))
    os.replace(hidden, places.incoming / name)
    _append(places.truth, made.truth(name))
    return name


class Sending:
    """The lines of a second as records of a topic. The topic is the account of them; truth.jsonl
    only counts what was sent."""

    def __init__(self, servers: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 2}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """What was sent last has to arrive: the count begins when we are gone."""
        self._producer.flush(FLUSH_S)
        self._producer.purge()  # a broker that is gone for so long does not come back for us

    def second(self, places: DemoPlaces, tick: int, now: float, rate: int, seed: int) -> str:
        made = lines.second(tick, now, rate, seed)
        begun, size = time.monotonic(), max(1, len(made.lines))
        for number, line in enumerate(made.lines):
            due = begun + number * SLICES // size * (0.9 / SLICES)
            time.sleep(max(0.0, due - time.monotonic()))
            self._send(line)
        name = f"logs-{tick:09d}.json"
        _append(places.truth, made.truth(name))
        return name

    def _send(self, line: bytes) -> None:
        """Waits while a broker that is down has let the queue fill up."""
        while True:
            try:
                self._producer.produce(self._topic, line)
            except BufferError:
                self._producer.poll(0)
                if _is_over(time.monotonic() + 0.5):
                    return
            else:
                self._producer.poll(0)
                return


def rate_of(places: DemoPlaces, otherwise: int) -> int:
    """What the demo asks for now: it lowers the rate on a machine that does not keep up."""
    try:
        rate = (read_json(places.control) or {}).get("rate")
    except Error:
        return otherwise
    return rate if isinstance(rate, int) and 0 < rate <= otherwise else otherwise


def _append(path: Path, entry: dict[str, object]) -> None:
    with path.open("ab") as file:
        file.write(json.dumps(entry).encode() + b"\n")


def _drop_torn_line(path: Path) -> None:
    """Its writer was killed in the middle of it: the file is looked at again instead."""
    if path.exists():
        content = path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end != len(content):
            os.truncate(path, end)


def _is_over(due: float) -> bool:
    """Waits until it is time for the next file; True when whoever started us is gone."""
    while (left := due - time.monotonic()) > 0:
        ready, _, _ = select.select([sys.stdin], [], [], left)
        if ready and not os.read(sys.stdin.fileno(), 1024):
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
