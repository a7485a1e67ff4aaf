"""Two queries: one fails on a certain row, the other is healthy."""

from pathlib import Path

import headrace as hr


def write_or_fail(batch, batch_id):
    values = [row["value"] for row in batch.collect()]
    for value in values:
        if value == "poison":
            raise ValueError(f"cannot price the order {value!r}")


@hr.stream(to=hr.each_batch(write_or_fail))
def fragile(lines):
    return lines


def append(batch, batch_id):
    folder = Path("data/healthy")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(batch_id)).write_text("\n".join(row["value"] for row in batch.collect()))


@hr.stream(to=hr.each_batch(append))
def healthy(lines):
    return lines
