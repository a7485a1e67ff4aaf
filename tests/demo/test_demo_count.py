"""The count sees every fault that is seeded, and none where there is none. Real files, no JVM."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import config
from headrace.demo import folder, generator, input_reader, loss_count, outputs
from headrace.demo.paths import DemoPaths
from headrace.errors import Error
from headrace.model.alerts import OpenAlert
from headrace.model.state_paths import StatePaths
from headrace.store import alerts, db

NOW = 1_780_000_000.0
SECONDS = 100
RATE = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> DemoPaths:
    """A demo's folder with input and all outputs, as a faultless pipeline would have left it."""
    places, _, _ = folder.prepare(tmp_path_factory.mktemp("count") / "demo")
    generator.next_tick(places)
    for tick in range(SECONDS):
        generator.write(places, tick, NOW + tick, RATE, seed=3)
    want = wanted(places)
    write_history(places, list(want.history.elements()))
    write_beats(places, [beat_line(row) for row in want.beats.elements()])
    write_logins(places, want.logins)
    write_quarantine(places, list(want.malformed.elements()))
    write_alerts(places, want.overloads, silent=1)
    shutil.copytree(places.folder, faultless(places))
    return places


def faultless(places: DemoPaths) -> Path:
    return places.folder.with_name("faultless")


@pytest.fixture
def demo(made: DemoPaths) -> DemoPaths:
    """The same folder again: a sink's log names its files by their whole path."""
    shutil.rmtree(made.folder)
    shutil.copytree(faultless(made), made.folder)
    return made


def wanted(places: DemoPaths) -> loss_count.Expected:
    files = input_reader.input_files(places.incoming, places.truth)
    lines = (line for path in files for line in input_reader.lines_of(path))
    return loss_count.compute_expected(lines, input_reader.customers(places.customers))


def counted(places: DemoPaths) -> loss_count.Count:
    settings = config.load(places.folder)
    return loss_count.count(
        wanted(places),
        outputs.read_all(settings, places, outputs.heartbeat_lines(places.heartbeats)),
    )


def committed(sink: Path, file: Path) -> None:
    log = sink / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    number = len(list(log.iterdir()))
    entry = {"path": file.as_uri(), "size": file.stat().st_size, "isDir": False, "action": "add"}
    (log / str(number)).write_text("v1\n" + json.dumps(entry))


def write_history(places: DemoPaths, rows: list[loss_count.Row]) -> None:
    names = ("timestamp", "customer_id", "event_type", "metric", "level", "cluster_id", "load",
             "customer", "plan")  # fmt: skip
    days: dict[str, list[loss_count.Row]] = {}
    for row in rows:
        days.setdefault(str(datetime.fromtimestamp(row[0] / 1e6, UTC).date()), []).append(row)
    for day, mine in days.items():
        data: dict[str, Any] = dict(zip(names, map(list, zip(*mine, strict=True)), strict=True))
        data["timestamp"] = pa.array(data["timestamp"], pa.timestamp("us", "UTC"))
        path = places.history / f"date={day}" / f"part-{len(mine)}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(data), path)
        committed(places.history, path)


def beat_line(row: loss_count.Row) -> str:
    log = input_reader.LoggedLine(*row[:7])
    at = datetime.fromtimestamp(log.at / 1e6, UTC).isoformat(timespec="milliseconds")
    body = {**log._asdict(), "timestamp": at.replace("+00:00", "Z")}
    body.pop("at")
    return json.dumps({**body, "customer": row[7], "plan": row[8]})


def write_beats(places: DemoPaths, lines: list[str]) -> None:
    places.heartbeats.mkdir(parents=True, exist_ok=True)
    number = len(list(places.heartbeats.glob("*.txt")))
    path = places.heartbeats / f"part-{number}.txt"
    path.write_text("".join(line + "\n" for line in lines))
    committed(places.heartbeats, path)


def write_logins(places: DemoPaths, logins: Counter[int], batch: int = 7) -> None:
    folder = Path(config.load(places.folder).result("metrics", "logins"))
    folder.mkdir(parents=True, exist_ok=True)
    minutes = pa.array(list(logins), pa.timestamp("us", "UTC"))
    table = pa.table({"minute": minutes, "logins": list(logins.values())})
    pq.write_table(table, folder / f"{batch}.parquet")


def write_quarantine(places: DemoPaths, raw: list[bytes]) -> None:
    sink = outputs.quarantine_folder(config.load(places.folder))
    sink.mkdir(parents=True, exist_ok=True)
    path = sink / f"part-{len(list(sink.glob('*.parquet')))}.parquet"
    reasons = ["malformed"] * len(raw)
    pq.write_table(pa.table({"raw": pa.array(raw, pa.binary()), "reason": reasons}), path)
    committed(sink, path)


def write_alerts(places: DemoPaths, overloads: Counter[int], silent: int) -> None:
    conn = db.open_alerts(StatePaths(config.load(places.folder).state).alerts)
    for query, clusters in (("overloaded", overloads), ("silent", Counter({9: silent}))):
        for cluster in clusters.elements():
            key = f"metrics/{query}/{cluster}"
            data = {"cluster_id": cluster}
            alert = OpenAlert(key, "row", "metrics", "t", "critical", query, data)
            alerts.open_once(conn, alert, NOW)
            alerts.resolve(conn, key, NOW + 1)
    conn.close()


def test_a_faultless_run_has_nothing_lost_and_nothing_doubled(demo: DemoPaths) -> None:
    found = counted(demo)

    assert found.outputs == {name: loss_count.OutputCount() for name in found.outputs}
    assert found.is_right
    assert found.malformed == found.quarantined > 0
    assert (found.overloaded, found.silent) == (2, 1)
    assert wanted(demo).history.total() > SECONDS * RATE * 0.9


def first_row(demo: DemoPaths) -> loss_count.Row:
    return next(iter(wanted(demo).history))


def remove_history_row(demo: DemoPaths) -> None:
    log = sorted((demo.history / "_spark_metadata").iterdir())
    rows = list(wanted(demo).history.elements())[1:]
    for entry in log:
        entry.unlink()
    write_history(demo, rows)


def double_history_row(demo: DemoPaths) -> None:
    write_history(demo, [first_row(demo)])


def change_history_row(demo: DemoPaths) -> None:
    remove_history_row(demo)
    write_history(demo, [(*first_row(demo)[:8], "another plan")])


def tear_line(demo: DemoPaths) -> None:
    path = demo.heartbeats / "part-0.txt"
    path.write_text(path.read_text()[:-9])


def double_line(demo: DemoPaths) -> None:
    write_beats(demo, [beat_line(next(iter(wanted(demo).beats)))])


def move_login(demo: DemoPaths) -> None:
    logins = Counter(wanted(demo).logins)
    newest = max(logins)
    logins[newest] -= 1
    logins[newest + loss_count.MINUTE_US] += 1
    write_logins(demo, logins, batch=10)


def drop_quarantined(demo: DemoPaths) -> None:
    sink = outputs.quarantine_folder(config.load(demo.folder))
    for entry in (sink / "_spark_metadata").iterdir():
        entry.unlink()
    write_quarantine(demo, list(wanted(demo).malformed.elements())[1:])


def double_quarantined(demo: DemoPaths) -> None:
    write_quarantine(demo, list(wanted(demo).malformed)[:1])


def open_alert_twice(demo: DemoPaths) -> None:
    write_alerts(demo, Counter({4: 1}), silent=0)


def forget_alerts(demo: DemoPaths) -> None:
    os.unlink(StatePaths(config.load(demo.folder).state).alerts)


FAULTS: list[tuple[Callable[[DemoPaths], None], str, int, int]] = [
    (remove_history_row, "history", 1, 0),
    (double_history_row, "history", 0, 1),
    (change_history_row, "history", 1, 1),
    (tear_line, "heartbeats", 1, 1),
    (double_line, "heartbeats", 0, 1),
    (move_login, "logins", 1, 1),
    (drop_quarantined, "logs.quarantine", 1, 0),
    (double_quarantined, "logs.quarantine", 0, 1),
    (open_alert_twice, "overloaded", 0, 1),
    (forget_alerts, "overloaded", 2, 0),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("fault", "output", "lost", "doubled"), FAULTS)
def test_a_seeded_fault_is_seen(
    demo: DemoPaths, fault: Callable[[DemoPaths], None], output: str, lost: int, doubled: int
) -> None:
    fault(demo)

    found = counted(demo)

    mine = found.outputs[output]
    assert (mine.lost, mine.doubled) == (lost, doubled)
    assert (found.lost, found.doubled) == (lost, doubled), "and it is the only one"
    assert not found.is_right
    assert mine.examples


def test_a_file_that_was_never_committed_does_not_count(demo: DemoPaths) -> None:
    row = first_row(demo)
    write_history(demo, [row])
    newest = max((demo.history / "_spark_metadata").iterdir(), key=lambda p: int(p.name))
    newest.unlink()

    assert counted(demo).is_right


def test_a_login_too_late_for_its_minute_is_late_and_not_lost() -> None:
    newest = 100 * loss_count.MINUTE_US
    old, recent = newest - 11 * loss_count.MINUTE_US, newest - 10 * loss_count.MINUTE_US

    late = loss_count.count_minutes({old: 5, newest: 2}, {old: 3, newest: 2}, newest)
    lost = loss_count.count_minutes({recent: 5}, {recent: 3}, newest)
    more = loss_count.count_minutes({old: 3}, {old: 5}, newest)

    assert (late.lost, late.late) == (0, 2)
    assert (lost.lost, lost.late) == (2, 0)
    assert (more.doubled, more.late) == (2, 0)


def test_episodes_are_counted_in_the_order_of_the_beats() -> None:
    def beat(at: int, load: float) -> bytes:
        body = {"timestamp": f"2026-01-01T00:00:{at:02d}.000Z", "customer_id": 1,
                "event_type": "clusterHeartbeat", "cluster_id": 4, "load": load}  # fmt: skip
        return json.dumps(body).encode()

    lines = [beat(8, 99.5), beat(2, 99.2), beat(4, 95.0), beat(6, 50.0), beat(3, 99.9)]

    want = loss_count.compute_expected(lines, {1: ("A", "b")})

    assert want.overloads == {4: 2}


def test_a_log_of_an_unknown_customer_is_in_no_output() -> None:
    line = b'{"timestamp": "2026-01-01T00:00:00.000Z", "customer_id": 99, "metric": "login"}'

    want = loss_count.compute_expected([line], {1: ("A", "b")})

    assert want == loss_count.Expected()


def test_input_that_somebody_changed_is_not_counted(demo: DemoPaths) -> None:
    next(demo.incoming.iterdir()).unlink()

    with pytest.raises(Error, match="is missing") as raised:
        counted(demo)

    assert raised.value.code == "demo-input-changed"


def test_missing_quarantine_alone_is_not_right() -> None:
    right = loss_count.count(loss_count.Expected(), loss_count.Outputs())

    assert right.is_right
    assert not replace(right, malformed=1).is_right


def test_a_heartbeat_once_too_often_is_no_fault_where_at_least_once_was_promised() -> None:
    want = loss_count.Expected(beats=Counter({("a",): 1, ("b",): 1}))
    found = loss_count.Outputs(beats=Counter({("a",): 3, ("strange",): 1}))

    strict = loss_count.count(want, found).outputs["heartbeats"]
    lenient = loss_count.count(want, found, ("heartbeats",)).outputs["heartbeats"]

    assert (strict.lost, strict.doubled, strict.repeated) == (1, 3, 0)
    assert (lenient.lost, lenient.doubled, lenient.repeated) == (1, 1, 2), "strange is a fault"
