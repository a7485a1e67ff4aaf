"""Rules about the machine: disks, and the memory of a driver. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.alerts.rules.words import KEEPS_RUNNING, percent, size, words
from headrace.model.rules import Disk, Hit, PipelineFacts, ProjectFacts, Unknown
from headrace.model.times import span

FULL_SHARE = 0.01  # of a disk, or
FULL_BYTES = 500e6
PARTS_NAMED = 3


def disk_filling(facts: ProjectFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """Little space is left, in share and in bytes, or it ends soon at the current rate."""
    for disk in facts.disks:
        is_low = disk.free < limits["free_share"] * disk.size and disk.free < limits["free_bytes"]
        is_soon = disk.full_in_s is not None and disk.full_in_s < limits["within"]
        if not is_low and not is_soon:
            continue
        left = f"{size(disk.free)} of {size(disk.size)} are free"
        soon = f", and at the rate of the last hour it is full in {span(disk.full_in_s or 0.0)}"
        title = f"The disk of {disk.path} is filling: {left}{soon if is_soon else ''}"
        yield Hit(title, words=_disk_words(facts), severity=_severity(disk), part=disk.path)
    if not facts.disks:
        yield Unknown()


def _severity(disk: Disk) -> str:
    is_full = disk.free < FULL_SHARE * disk.size and disk.free < FULL_BYTES
    return "critical" if is_full else "warning"


def _disk_words(facts: ProjectFacts) -> dict[str, str]:
    parts = sorted(facts.own_parts.items(), key=lambda part: -part[1])[:PARTS_NAMED]
    named = ", ".join(f"{name} {size(count)}" for name, count in parts)
    own = "" if facts.own_bytes is None else f"{size(facts.own_bytes)} ({named})"
    found = {
        "Headrace": "Keeps the pipelines running. When the disk is full, their batches fail, and "
        "it retries until there is space.",
        "Headrace's own files": own,
        "What to do": "Delete or move files, or enlarge the disk.",
        "Affected outputs": "all that is written to this disk",
        "More": "headrace status",
    }
    return {heading: text for heading, text in found.items() if text}


def driver_memory(facts: PipelineFacts, limits: Mapping[str, float]) -> Iterator[Hit | Unknown]:
    """What garbage collection leaves of the heap, or the driver's share of the memory that it may
    use."""
    heap, memory = facts.numbers.get("heap_share"), facts.numbers.get("memory_share")
    if heap is None and memory is None:
        yield Unknown()
        return
    over = [share for share in (heap, memory) if share is not None and share >= limits["share"]]
    if not over:
        return
    is_heap = heap is not None and heap >= limits["share"]
    what = "its Java heap is" if is_heap else "it uses"
    of = "full after garbage collection" if is_heap else "of the memory of this machine"
    fix = (
        'Raise "spark.driver.memory" under [spark], or keep less in memory: less state, smaller '
        "batches (max_rows, max_files), no collect() in functions."
        if is_heap
        else "Give the machine or container more memory, or run fewer pipelines on it."
    )
    title = f"The driver of {facts.name} is near its memory limit: {what} {percent(max(over))} {of}"
    yield Hit(title, words=words(facts, KEEPS_RUNNING, fix))
