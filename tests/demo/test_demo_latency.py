"""How long results took, from the moments that others have told."""

from __future__ import annotations

import pytest

from headrace.demo import latency


def test_half_and_nearly_all() -> None:
    found = latency.from_samples(float(n) for n in range(200))

    assert found == latency.Latency(100.0, 198.0, 200)
    assert latency.from_samples([7.0]) == latency.Latency(7.0, 7.0, 1)
    assert latency.from_samples([]) is None


def test_a_heartbeat_that_was_sent_again_counts_when_it_first_came() -> None:
    went_in = {(1, 10): 1000.0, (2, 10): 1000.0, (3, 10): 1000.0}
    came_out = [((1, 10), 1500.0), ((1, 10), 1003.0), ((2, 10), 1020.0), ((9, 9), 5.0)]

    assert sorted(latency.measure_beats(went_in, came_out)) == [3.0, 20.0]


def test_only_what_waited_for_the_first_start_is_left_out() -> None:
    went_in = {(1, 1): 100.0, (1, 2): 8_999.0, (1, 3): 9_000.0, (1, 4): 20_000.0}
    # The last one was there while the pipeline was restarted.
    came_out = [((1, 1), 9_000.0), ((1, 2), 9_001.0), ((1, 3), 9_002.0), ((1, 4), 29_000.0)]

    assert sorted(latency.measure_beats(went_in, came_out)) == [2.0, 9_000.0]
    assert latency.measure_beats(went_in, []) == []


def test_records_of_a_batch_wait_until_it_is_done() -> None:
    appended = {0: [0.0, 10.0, 20.0, 30.0], 1: [5.0]}
    batches = [({0: 1}, 50.0), ({0: 3, 1: 1}, 100.0), ({0: 4, 1: 1}, 130.0)]

    # The first only says where the next one begins: what came before it may be long gone.
    assert latency.measure_batches(appended, batches) == [90.0, 80.0, 95.0, 100.0]


@pytest.mark.parametrize(
    ("noticed", "late"),
    [
        ([(4, 65_000.0)], [4_000.0]),
        ([(4, 71_000.0)], [10_000.0]),  # it is back just before it is missed
        ([(4, 500.0)], []),
        ([(5, 65_000.0)], []),
    ],
)
def test_a_silence_is_due_a_minute_after_the_last_heartbeat(
    noticed: list[tuple[int, float]], late: list[float]
) -> None:
    beats = [((4, 1), 900.0), ((4, 2), 1000.0), ((4, 3), 70_000.0)]

    assert latency.measure_silences(beats, noticed) == late
