from __future__ import annotations

import os
import resource
import signal
import threading
from pathlib import Path

import pytest

from headrace.driver.events import KEEP_ONE_IN, EventsFile
from headrace.model.events import Event, EventKind


def told(path: Path) -> list[Event]:
    return [Event.from_line(line) for line in path.read_text().splitlines()]


def test_an_event_is_one_line_that_reads_back(tmp_path: Path) -> None:
    file = EventsFile(tmp_path / "events.jsonl", clock=lambda: 12.5)

    file.tell(EventKind.PROGRESSED, "history", {"progress": {"batchId": 3, "name": "line\nbreak"}})

    assert told(tmp_path / "events.jsonl") == [
        Event(
            12.5,
            EventKind.PROGRESSED,
            "history",
            {"progress": {"batchId": 3, "name": "line\nbreak"}},
        )
    ]


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    EventsFile(tmp_path / "events.jsonl")

    assert (tmp_path / "events.jsonl").stat().st_mode & 0o077 == 0


def test_a_full_file_thins_progress_and_counts_what_it_left_out(tmp_path: Path) -> None:
    file = EventsFile(tmp_path / "events.jsonl", size_max=1)

    for batch in range(3 * KEEP_ONE_IN + 1):
        file.tell(EventKind.PROGRESSED, "q", {"progress": {"batchId": batch}})

    events = told(tmp_path / "events.jsonl")
    kept = [e for e in events if e.kind is EventKind.PROGRESSED]
    skipped = sum(e.data["skipped"] for e in events if e.kind is EventKind.THINNED)
    assert len(kept) == 4  # the first filled the file, then one in KEEP_ONE_IN
    assert len(kept) + skipped == 3 * KEEP_ONE_IN + 1


@pytest.mark.parametrize(
    "kind", [EventKind.QUERY_STARTED, EventKind.QUERY_TERMINATED, EventKind.EXITED]
)
def test_a_full_file_never_leaves_out_a_start_or_an_end(tmp_path: Path, kind: EventKind) -> None:
    file = EventsFile(tmp_path / "events.jsonl", size_max=0)

    file.tell(kind, "q")

    assert [e.kind for e in told(tmp_path / "events.jsonl")] == [kind]


def test_a_disk_that_takes_nothing_costs_lines_but_raises_nothing(tmp_path: Path) -> None:
    file = EventsFile(tmp_path / "events.jsonl")
    file.tell(EventKind.IDLED, "q")
    limit, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that write() says EFBIG, as ENOSPC would
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(tmp_path / "events.jsonl").st_size, -1))
        file.tell(EventKind.IDLED, "q")
        file.tell(EventKind.IDLED, "q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)

    file.tell(EventKind.IDLED, "q")

    kinds = [e.kind for e in told(tmp_path / "events.jsonl")]
    assert kinds == [EventKind.IDLED, EventKind.THINNED, EventKind.IDLED]
    assert told(tmp_path / "events.jsonl")[1].data == {"skipped": 2}


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    file = EventsFile(tmp_path / "events.jsonl")

    def tell_many(name: str) -> None:
        for _ in range(200):
            file.tell(EventKind.SAMPLED, name, {"text": name * 50})

    threads = [threading.Thread(target=tell_many, args=(c,)) for c in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(told(tmp_path / "events.jsonl")) == 800
