"""How old the records of a batch were: from the source's log, from event time, from the trigger."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.driver import freshness
from headrace.model.progress import from_spark

BEGAN = datetime(2026, 1, 1, 12, 0, tzinfo=UTC).timestamp() * 1000  # of the trigger; it took 2 s
COMMITTED = BEGAN + 2_000


def moment(age_s: float) -> str:
    """As Spark writes it; `age_s` before the commit."""
    at = datetime.fromtimestamp(COMMITTED / 1000 - age_s, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def source(kind: str, rows: int = 10, **more: Any) -> dict[str, Any]:
    return {"description": f"{kind}[…]", "numInputRows": rows, **more}


def files(entry: int, rows: int = 10) -> dict[str, Any]:
    start = {"logOffset": entry - 1} if entry else None
    end = {"logOffset": entry}
    return source("FileStreamSource", rows, startOffset=start, endOffset=end)


def progress(*sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "timestamp": "2026-01-01T12:00:00.000Z",
        "batchId": 7,
        "numInputRows": sum(one["numInputRows"] for one in sources),
        "durationMs": {"triggerExecution": 2000},
        "eventTime": {},
        "sources": list(sources),
        **more,
    }


def sample(body: dict[str, Any], *given: Any) -> dict[str, Any] | None:
    return freshness.sample(from_spark(body), *given)


def log(checkpoint: Path, number: int, entry: int, *ages_s: float) -> None:
    folder = checkpoint / "sources" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    bodies = [
        {"path": f"{n}", "timestamp": int(COMMITTED - age * 1000), "batchId": entry}
        for n, age in enumerate(ages_s)
    ]
    lines = [json.dumps(body, separators=(",", ":")) for body in bodies]
    (folder / str(entry)).write_text("\n".join(["v1", *lines]))


def seconds(found: dict[str, Any] | None) -> tuple[str, float, float, float]:
    assert found is not None
    ms = (found[name] / 1000 for name in ("p50_ms", "p99_ms", "newest_ms"))
    return (found["basis"], *ms)


def test_files_are_as_old_as_their_times_say(tmp_path: Path) -> None:
    log(tmp_path, 0, 3, 5, 10, 90)

    found = sample(progress(files(3)), tmp_path)

    assert seconds(found) == ("arrival", 10, 90, 5)
    assert found is not None
    assert found["n"] == 10


def test_two_file_sources_count_by_their_rows(tmp_path: Path) -> None:
    log(tmp_path, 0, 0, 1)
    log(tmp_path, 1, 4, 60)

    assert seconds(sample(progress(files(0, 900), files(4, 100)), tmp_path))[1:3] == (
        1,
        60,
    )
    assert seconds(sample(progress(files(0, 100), files(4, 900)), tmp_path))[1:3] == (
        60,
        60,
    )


def test_a_source_without_rows_in_this_batch_does_not_matter(tmp_path: Path) -> None:
    log(tmp_path, 0, 0, 1)

    found = sample(progress(files(0), source("KafkaV2", 0)), tmp_path)

    assert seconds(found)[0] == "arrival"


EVENT = {"max": moment(4), "avg": moment(10), "min": moment(900), "watermark": moment(100)}


def test_event_time_stands_in_where_no_arrival_is_known(tmp_path: Path) -> None:
    kafka = progress(source("KafkaV2"), eventTime=EVENT)

    assert seconds(sample(kafka, tmp_path)) == ("event", 10, 15.88, 4)
    assert seconds(sample(progress(files(3), eventTime=EVENT), None))[0] == "event"


def test_the_oldest_event_is_never_passed(tmp_path: Path) -> None:
    told = {"max": moment(4), "avg": moment(10), "min": moment(12)}

    assert seconds(sample(progress(source("KafkaV2"), eventTime=told), None))[2] <= 12


def test_arrival_is_better_than_event_time(tmp_path: Path) -> None:
    log(tmp_path, 0, 3, 1)

    assert seconds(sample(progress(files(3), eventTime=EVENT), tmp_path))[0] == "arrival"


def test_records_of_a_topic_lie_evenly_between_the_first_and_the_last_of_a_partition() -> None:
    """900 within a minute, 100 within a second; the source counts rows, not places."""
    written = [(COMMITTED - 60_000, COMMITTED, 900), (COMMITTED - 1_000, COMMITTED, 100)]

    found = sample(progress(source("KafkaV2", 500), eventTime=EVENT), None, {0: written})

    assert found is not None
    assert found["n"] == 500
    assert seconds(found) == ("arrival", pytest.approx(26.7, abs=0.5), pytest.approx(59.4), 0)


def test_a_topic_of_which_nothing_could_be_asked_is_not_known() -> None:
    assert sample(progress(source("KafkaV2")), None, {0: []}) is None


@pytest.mark.parametrize("kind", ["RateStreamV2", "TextSocketV2"])
def test_rows_that_come_into_being_as_they_are_read(kind: str) -> None:
    """600 rows at 10 a second: since the last look, a minute ago; the batch took two seconds."""
    found = sample(progress(source(kind, 600, inputRowsPerSecond=10.0)), None)

    assert seconds(found) == ("trigger", 32, pytest.approx(61.4, abs=0.1), 2)


@pytest.mark.parametrize("rate", [None, 0.0, 0.1, "NaN", float("nan")])
def test_the_first_look_and_a_rate_too_coarse_say_nothing(rate: Any) -> None:
    assert sample(progress(source("RateStreamV2", 5, inputRowsPerSecond=rate)), None) is None


def test_of_files_and_rate_together_the_weaker_basis_is_told(tmp_path: Path) -> None:
    log(tmp_path, 0, 3, 1)
    rate = source("RateStreamV2", 10, inputRowsPerSecond=10.0)

    assert seconds(sample(progress(files(3), rate), tmp_path))[0] == "trigger"


def test_one_source_of_which_nothing_is_known_makes_all_unknown(tmp_path: Path) -> None:
    log(tmp_path, 0, 3, 1)

    assert sample(progress(files(3), source("KafkaV2")), tmp_path) is None


def test_a_batch_without_rows_gives_no_sample(tmp_path: Path) -> None:
    log(tmp_path, 0, 3, 1)

    assert sample(progress(files(3, rows=0)), tmp_path) is None


KEYS = ["timestamp", "numInputRows", "durationMs", "eventTime", "sources", "triggerExecution",
        "max", "avg", "min", "endOffset", "startOffset", "logOffset", "inputRowsPerSecond",
        "description"]  # fmt: skip
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([moment(1), "RateStreamV2[", "0001-01-01T00:00:00", "2026-01-01"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING))
def test_nothing_that_spark_could_say_makes_it_fail(body: dict[str, Any]) -> None:
    good = progress(source("RateStreamV2", 5, inputRowsPerSecond=2.0), eventTime=EVENT)

    for told in (body, {**good, **body}):
        sample(told, None)
        sample(told, Path("nowhere"))
