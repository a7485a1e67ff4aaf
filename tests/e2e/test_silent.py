"""Nothing fails, and the answer is wrong or missing: what `status` and `why` say, and that the fix
they give works. One project, one driver, eight kinds of trouble at once."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from e2e import rig
from headrace.checkpoints import committed_files

pytestmark = pytest.mark.e2e
ROWS = 30


class Feed:
    """Writes an input file each second, as sensors do; what it writes can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trouble = False
        self.renamed = False  # and stays so: the fix is on our side
        self.written: Counter[str] = Counter()
        self._number = itertools.count()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._end.wait(1.0):
            self.write()

    def write(self) -> None:
        first = next(self._number) * ROWS
        now = datetime.now(UTC)
        rows = [self._row(first + n, now) for n in range(ROWS)]
        bad = [{"id": f"sensor-{n}", "at": "noon", "temp": "warm"} for n in range(ROWS)]
        old = now - timedelta(hours=2)
        self._file("lines", bad if self.trouble else rows)
        self._file("delayed", [self._row(n, old) for n in range(ROWS)] if self.trouble else rows)
        self._file("left", rows)
        if not self.trouble:
            self._file("right", rows)
        self._file("ids", [self._row(first * 40 + n, now) for n in range(300)])
        self._file("times", rows)
        room, temp = ("cellar", "temperature") if self.renamed else ("kitchen", "temp")
        self._file("devices", [{"id": first + n, "room": room, temp: 20.5} for n in range(ROWS)])

    def ahead(self) -> None:
        """One row of a device whose clock is a year ahead."""
        self._file("times", [self._row(17, datetime.now(UTC) + timedelta(days=365))])

    def _row(self, number: int, at: datetime) -> dict[str, Any]:
        return {"id": number, "at": at.isoformat(), "temp": 20.5}

    def _file(self, source: str, rows: list[dict[str, Any]]) -> None:
        folder = self.folder / "in" / source
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.written[source]:06}.json"
        (folder / f".{name}").write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.replace(folder / f".{name}", folder / name)
        self.written[source] += 1


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rig.Project]:
    project = rig.Project.copy("silent", tmp_path_factory.mktemp("silent") / "project")
    Feed(project.folder).write()
    yield project
    project.headrace("down")


def findings(project: rig.Project) -> dict[str, str]:
    queries = project.status("sensors").get("queries", ())
    return {one["slug"]: one["query"] for query in queries for one in query["findings"]}


EXPECTED = {
    "many-quarantined": "parsed.quarantine",
    "watermark-in-future": "counted",
    "late-rows": "punctual",
    "watermark-held": "paired",
    "state-grows": "unique",
    "falling-behind": "loaded",
    "field-null": "placed",
    "lookup-unmatched": "placed",
}


def test_eight_kinds_of_silent_trouble_are_seen_explained_and_mended(project: rig.Project) -> None:
    with Feed(project.folder) as feed:
        project.headrace("up", "sensors")
        rig.eventually("the queries have a past", lambda: is_warm(project), 120)
        feed.trouble = feed.renamed = True
        began_at = datetime.now(UTC)
        feed.ahead()
        (project.folder / "slow").touch()
        rig.eventually("all are found", lambda: EXPECTED.items() <= findings(project).items(), 120)

        seen = project.headrace("status")
        why = project.headrace("why", "sensors")

        mend(project)
        feed.trouble = False
        project.headrace("up", "sensors")
        rig.eventually("nothing is wrong any more", lambda: is_well(project), 120)
    rig.eventually("every row is placed", lambda: placed(project) == sent(project), 60)
    project.headrace("stop", "sensors")

    assert "sensors  degraded" in seen
    assert "problem: counted: The watermark is at " in seen
    for words in (
        "of the records read by parsed have been quarantined since",
        "what to do: Run `headrace quarantine list` to see the records",
        "d ahead of the clock",
        "what to do: Filter out rows with future event times before withWatermark",
        "problem: punctual: Rows are being dropped because they are late",
        "in/right has delivered no rows since",
        "The state of dropDuplicates (dedupe) keeps growing",
        "problem: loaded: Falling behind since",
        "problem: placed: `temp` is null in all rows since",
        "100 % of records have an unknown field `temperature`",
        "what to do: Add `temperature` to the schema in",
        "problem: placed: The join with rooms has dropped all rows since",
        "sensors.py:",
    ):
        assert words in why, words
    expected, got = arrived(project), answered(project)
    assert got == {start: expected[start] for start in got}
    assert any(start > began_at for start in got)  # rows that the future had made late are back


def is_warm(project: rig.Project) -> bool:
    """Every query has a past that it can be compared with."""
    queries = project.status("sensors").get("queries", ())
    return len(queries) == 8 and all(query["batches"] >= 3 for query in queries)


def is_well(project: rig.Project) -> bool:
    """Every query of the mended version has worked, and nothing is found."""
    status = project.status("sensors")
    has_worked = all(query["batches"] for query in status.get("queries", ()))
    return status.get("state") == "running" and has_worked and not findings(project)


def mend(project: rig.Project) -> None:
    """What `why` says, carried out: filter, new checkpoint and folder, a shorter life for keys, an
    input that speaks, less work a batch."""
    (project.folder / "slow").unlink()
    with (project.folder / "rooms.csv").open("a") as rooms:
        rooms.write("cellar,-1\n")
    project.headrace("stop", "sensors", code=None)  # it may be cut: a batch takes a minute by now
    file = project.folder / "pipelines" / "sensors.py"
    text = file.read_text()
    for old, new in (
        (
            "return by_window(times)",
            "return by_window(times.where('at < current_timestamp() + INTERVAL 1 HOUR'))",
        ),
        ('"id long, room string, temp double"', '"id long, room string, temperature double"'),
        (
            'ids.select("id").dropDuplicates()',
            'ids.withWatermark("at", "1 second").dropDuplicatesWithinWatermark(["id"])',
        ),
    ):
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    for query in ("counted", "unique", "placed"):
        shutil.rmtree(project.folder / "checkpoints" / "sensors" / query)
        shutil.rmtree(project.folder / "data" / query)


def placed(project: rig.Project) -> Counter[tuple[Any, ...]]:
    """Every row of `placed`: after the fix none is missing, and those that had a temperature have
    it."""
    return Counter((r["id"], r["room"], r["temperature"]) for r in written(project, "placed"))


def sent(project: rig.Project) -> Counter[tuple[Any, ...]]:
    rows = (
        json.loads(line)
        for file in (project.folder / "in" / "devices").glob("*.json")
        for line in file.read_text().splitlines()
    )
    return Counter((row["id"], row["room"], row.get("temperature")) for row in rows)


def written(project: rig.Project, query: str) -> list[dict[str, Any]]:
    files = [one.path for one in committed_files.files(project.folder / "data" / query)]
    rows: list[dict[str, Any]] = pq.ParquetDataset(files).read().to_pylist()
    return rows


def answered(project: rig.Project) -> dict[datetime, int]:
    """The windows that `counted` has written."""
    rows = written(project, "counted")
    assert len(rows) == len({row["start"] for row in rows})
    return {row["start"].replace(tzinfo=UTC): row["count"] for row in rows}


def arrived(project: rig.Project) -> Counter[datetime]:
    """The same windows, from the input: every row that has a plausible time."""
    found: Counter[datetime] = Counter()
    soon = datetime.now(UTC) + timedelta(hours=1)
    for file in (project.folder / "in" / "times").glob("*.json"):
        for line in file.read_text().splitlines():
            at = datetime.fromisoformat(json.loads(line)["at"])
            if at < soon:
                found[at.replace(second=at.second // 10 * 10, microsecond=0)] += 1
    return found
