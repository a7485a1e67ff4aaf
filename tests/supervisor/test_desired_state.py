"""How requests change what should run, and the files of both."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ControlError
from headrace.model.gaps import Gap
from headrace.model.places import Places
from headrace.model.requests import Answer, Request, What
from headrace.model.runs import Desired
from headrace.state import desired, requests
from headrace.supervisor import change
from headrace.supervisor.change import Known, after

RUNS = Desired("orders", "running", "v2", "dev", "orders.py", generation=4, previous=("v0", "v1"))
HALTED = replace(RUNS, wanted="stopped")
DOUBTFUL = replace(RUNS, wanted="unknown")
BY_HAND = replace(RUNS, dev=True, session="r0")


def asked(what: What, pipeline: str = "orders", id: str = "r1", **more: object) -> Request:
    return Request(id, what, "ann", 9.0, pipeline, **more)


def deployed(version: str, **more: object) -> Request:
    return asked(What.DEPLOY, version=version, file="orders.py", **more)


def test_a_first_deploy_starts_generation_one() -> None:
    wanted, _ = after(deployed("v1"), Known(None, False))

    assert (wanted.wanted, wanted.version, wanted.generation) == ("running", "v1", 1)


def test_a_deploy_after_its_desired_state_was_taken_away_is_later_than_all_its_runs() -> None:
    wanted, _ = after(deployed("v1"), Known(None, False, last_generation=6))

    assert wanted.generation == 7


def test_a_new_version_rises_and_remembers_the_one_before() -> None:
    wanted, text = after(deployed("v3"), Known(RUNS, True))

    assert (wanted.generation, wanted.previous) == (5, ("v0", "v1", "v2"))
    assert text == "orders: version v3 takes the place of v2"


def test_the_same_version_again_changes_nothing_while_it_runs() -> None:
    wanted, text = after(deployed("v2"), Known(RUNS, True))

    assert wanted is RUNS
    assert text == "orders runs version v2 already"


def test_the_same_version_again_starts_what_does_not_run() -> None:
    wanted, _ = after(deployed("v2"), Known(RUNS, False))

    assert wanted.generation == 5


def test_other_arguments_are_another_deploy() -> None:
    wanted, _ = after(deployed("v2", script=True, args=("--fast",)), Known(RUNS, True))

    assert (wanted.generation, wanted.args, wanted.previous) == (5, ("--fast",), ("v0", "v1"))


def test_the_list_of_earlier_versions_is_bounded() -> None:
    long = replace(RUNS, previous=tuple(f"v{n}" for n in range(50)))

    wanted, _ = after(deployed("new"), Known(long, True))

    assert len(wanted.previous) == change.PREVIOUS_MAX
    assert wanted.previous[-1] == "v2"


@pytest.mark.parametrize(
    ("what", "current", "is_live", "wanted", "generation", "text"),
    [
        (What.START, RUNS, True, "running", 4, "orders is running already"),
        (What.START, RUNS, False, "running", 5, "orders starts"),
        (What.START, HALTED, True, "running", 5, "orders starts"),
        (What.STOP, RUNS, True, "stopped", 5, "orders is being stopped"),
        (What.STOP, RUNS, False, "stopped", 5, "orders is stopped"),
        (What.STOP, HALTED, False, "stopped", 4, "orders is stopped already"),
        (What.CUT, HALTED, True, "stopped", 4, "orders is being stopped already"),
        (What.RESTART, RUNS, True, "running", 5, "orders drains and starts again"),
        (What.RESTART, HALTED, False, "running", 5, "orders starts"),
        (What.START, DOUBTFUL, False, "running", 5, "orders starts"),
        (
            What.START,
            DOUBTFUL,
            True,
            "running",
            4,
            "orders is running already, and is kept running from now on",
        ),
        (What.STOP, DOUBTFUL, True, "stopped", 5, "orders is being stopped"),
        (What.STOP, desired.damaged("orders"), False, "stopped", 2, "orders is stopped"),
    ],
)
def test_start_stop_and_restart(
    what: What, current: Desired, is_live: bool, wanted: str, generation: int, text: str
) -> None:
    became, said = after(asked(what), Known(current, is_live))

    assert (became.wanted, became.generation, said) == (wanted, generation, text)


@pytest.mark.parametrize("what", [What.START, What.RESTART, What.ROLLBACK])
def test_a_version_that_nobody_knows_is_not_started(what: What) -> None:
    with pytest.raises(ControlError) as refused:
        after(asked(what), Known(desired.damaged("orders"), False))

    assert (refused.value.code, refused.value.fix) == ("unknown-version", "headrace up orders")
    wanted, _ = after(deployed("v3"), Known(desired.damaged("orders"), False))
    assert (wanted.wanted, wanted.version, wanted.previous) == ("running", "v3", ())


@pytest.mark.parametrize(
    "known",
    [
        Known(RUNS, is_live=True, is_kept=True),
        Known(RUNS, is_live=False, is_kept=True),  # it waits for its next start, or for a person
        Known(RUNS, is_live=True, is_kept=False),  # its supervisor was killed
        Known(DOUBTFUL, is_live=True, is_kept=True),
        Known(BY_HAND, is_live=True, is_kept=True),  # in another terminal
    ],
)
def test_a_run_is_refused_for_what_is_kept_running_unless_it_is_to_replace_it(known: Known) -> None:
    with pytest.raises(ControlError) as refused:
        after(deployed("v3", dev=True), known)

    assert refused.value.code == "kept-running"
    assert "version v2, profile dev" in refused.value.what
    assert str(refused.value.fix).startswith("headrace run orders --replace ")
    assert after(deployed("v3", dev=True, replaces=True), known)[0].version == "v3"
    assert after(deployed("v3"), known)[0].former is None  # `up` is a decision of its own


@pytest.mark.parametrize(
    "known",
    [
        Known(None, is_live=False),
        Known(HALTED, is_live=True, is_kept=True),
        Known(RUNS, is_live=False, is_kept=False),
        Known(RUNS, is_live=False, is_kept=True, is_finished=True),
        Known(BY_HAND, is_live=False, is_kept=True),  # it failed, and was edited
        Known(DOUBTFUL, is_live=False, is_kept=True),
    ],
)
def test_a_run_takes_the_place_of_what_is_not_kept_running(known: Known) -> None:
    assert after(deployed("v3", dev=True), known)[0].version == "v3"


@pytest.mark.parametrize("former", [replace(RUNS, profile="prod"), HALTED, DOUBTFUL])
def test_what_a_run_has_replaced_comes_back_as_it_was(former: Desired) -> None:
    begun, _ = after(deployed("v3", id="r1", dev=True, replaces=True), Known(former, True, True))
    again, _ = after(deployed("v4", id="r2", dev=True, replaces=True), Known(begun, True, True))
    ended, _ = after(asked(What.STOP, id="r3", session="r2"), Known(again, True, True))

    late, _ = after(asked(What.RESTORE, id="r4", session="r1"), Known(ended, False, True))
    back, _ = after(asked(What.RESTORE, id="r5", session="r2"), Known(late, False, True))

    assert late is ended  # the first run ended when the second one took its place
    assert back == replace(former, generation=ended.generation + 1, request="r5")


def test_what_was_finished_is_not_done_again_after_a_run_has_replaced_it() -> None:
    known = Known(RUNS, False, is_kept=True, is_finished=True)
    begun, _ = after(deployed("v3", id="r1", dev=True), known)

    back, _ = after(asked(What.RESTORE, id="r2", session="r1"), Known(begun, False, True))

    assert (back.version, back.wanted) == ("v2", "stopped")


def test_what_a_person_decides_during_a_run_is_not_undone_at_its_end() -> None:
    begun, _ = after(deployed("v3", id="r1", dev=True, replaces=True), Known(RUNS, True, True))
    for decided in (deployed("v4", id="r2"), asked(What.ROLLBACK, id="r2")):
        current, _ = after(decided, Known(begun, True, True))

        assert after(asked(What.RESTORE, session="r1"), Known(current, True, True))[0] is current


@pytest.mark.parametrize("what", [What.STOP, What.CUT])
def test_a_person_s_stop_during_a_run_holds_after_its_end(what: What) -> None:
    begun, _ = after(deployed("v3", id="r1", dev=True, replaces=True), Known(RUNS, True, True))
    halted, _ = after(asked(what, id="r2"), Known(begun, True, True))

    back, _ = after(asked(What.RESTORE, id="r3", session="r1"), Known(halted, False, True))

    assert (back.version, back.wanted) == ("v2", "stopped")


def test_a_rollback_goes_one_version_back_and_again_one_further() -> None:
    first, _ = after(asked(What.ROLLBACK), Known(RUNS, True))
    second, _ = after(asked(What.ROLLBACK, id="r2"), Known(first, True))

    assert (first.version, first.previous) == ("v1", ("v0",))
    assert (second.version, second.previous, second.generation) == ("v0", (), 6)
    with pytest.raises(ControlError, match="no earlier version"):
        after(asked(What.ROLLBACK, id="r3"), Known(second, True))


@pytest.mark.parametrize("what", [What.DEPLOY, What.RESTART, What.ROLLBACK, What.STOP])
def test_a_request_that_was_served_before_a_crash_changes_nothing_again(what: What) -> None:
    more = {"version": "v3", "file": "orders.py"} if what is What.DEPLOY else {}
    request = asked(what, **more)
    once, _ = after(request, Known(RUNS, True))

    twice, _ = after(request, Known(once, False))

    assert once is not RUNS
    assert twice is once


def test_a_version_whose_copy_is_gone_is_refused() -> None:
    known = Known(RUNS, True, has_version=lambda version: False)

    for request in (deployed("v9"), asked(What.ROLLBACK, version="v1")):
        with pytest.raises(ControlError) as caught:
            after(request, known)
        assert caught.value.code == "unknown-version"


def test_an_unknown_pipeline_is_refused_with_the_near_miss() -> None:
    with pytest.raises(ControlError) as caught:
        after(asked(What.START, "ordres"), Known(None, False, names=("orders", "clicks")))

    assert 'Did you mean "orders"?' in str(caught.value)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101, "a b"])
def test_a_name_that_could_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ControlError) as caught:
        after(asked(What.DEPLOY, name), Known(None, False))

    assert caught.value.code == "bad-name"


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "{}", "\0", {"pipeline": ["orders"]}, {"pipeline": "other"}, {"wanted": {}},
     {"wanted": "walking"}, {"version": None}, {"version": "../x"}, {"version": ""},
     {"profile": 1}, {"generation": "2"}, {"args": "x"}, {"previous": [1]}, {"at": "today"},
     {"former": 5}, {"former": {"pipeline": "orders"}}],
    ids=str,
)  # fmt: skip
def test_desired_state_is_read_back_and_a_damaged_file_says_unknown(
    tmp_path: Path, damage: str | dict[str, Any]
) -> None:
    places = Places(tmp_path)
    former = json.loads(json.dumps(RUNS.to_json()))
    other = replace(RUNS, pipeline="other", former=former, dev=True)
    desired.write(places, other)
    body = damage if isinstance(damage, str) else json.dumps({**RUNS.to_json(), **damage})
    places.desired("orders").write_text(body)
    (places.desired_folder / "not a name.json").write_text("{")

    assert desired.read(places, "orders") == desired.damaged("orders")
    assert desired.listed(places) == [desired.damaged("orders"), other]
    assert desired.read(places, "never") is None


def test_requests_are_served_oldest_first_and_answered_once(tmp_path: Path) -> None:
    places = Places(tmp_path)
    for number in (2, 1, 3):
        requests.leave(places, Request(f"r{number}", What.START, "ann", float(number), "orders"))

    found = requests.waiting(places)
    requests.answer(places, Answer("r1", ok=True, text="yes"))

    assert [request.id for request in found] == ["r1", "r2", "r3"]
    assert [request.id for request in requests.waiting(places)] == ["r2", "r3"]
    assert requests.answer_of(places, "r1", 0) == Answer("r1", ok=True, text="yes")
    assert requests.answer_of(places, "r2", 0) is None


def test_a_request_that_was_answered_before_a_crash_is_not_served_again(tmp_path: Path) -> None:
    places = Places(tmp_path)
    request = Request("r1", What.RESTART, "ann", 1.0, "orders")
    requests.answer(places, Answer("r1", ok=True))
    requests.leave(places, request)

    assert requests.waiting(places) == []
    assert not (places.requests / "r1.json").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"id": "r1", "what": "sta',
        b"[1, 2]",
        b'{"id": "r1"}',
        b'{"id": "other", "what": "start", "by": "x", "at": 1}',
        b'{"id": "r1", "what": "explode", "by": "x", "at": 1}',
        b'{"id": "r1", "what": "start", "by": "x", "at": "soon"}',
        b'{"id": "r1", "what": "start", "by": "x", "at": 1, "pipeline": {"a": 1}}',
        b'{"id": "r1", "what": "start", "by": "x", "at": 1, "args": 7}',
        b"\xff\xfe\x00",
        b" " * (requests.BYTES_MAX + 1),
    ],
)
def test_a_file_that_is_no_request_is_set_aside(tmp_path: Path, content: bytes) -> None:
    places = Places(tmp_path)
    places.requests.mkdir()
    (places.requests / "r1.json").write_bytes(content)
    requests.leave(places, Request("r2", What.START, "ann", 2.0, "orders"))

    assert [request.id for request in requests.waiting(places)] == ["r2"]
    assert (places.requests / "r1.json.bad").exists()


def test_answers_and_set_aside_files_are_bounded(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.answers.mkdir()
    places.requests.mkdir()
    for number in range(requests.ANSWERS_KEPT + 20):
        (places.answers / f"r{number}.json").write_text("{}")
    for number in range(requests.SET_ASIDE_KEPT + 5):
        (places.requests / f"r{number}.json.bad").write_text("{}")

    requests.prune(places)

    assert len(list(places.answers.iterdir())) == requests.ANSWERS_KEPT
    assert len(list(places.requests.iterdir())) == requests.SET_ASIDE_KEPT


def test_a_gap_is_accepted_by_one_start_and_by_nothing_after_it() -> None:
    note = "kept: logs, partition 0: 10 records"
    gap = Gap("kept", "logs", 0, first=5, low=15, high=20).to_json()
    accepting = asked(What.START, accepted_gaps=(gap,), note=note)

    wanted, text = after(accepting, Known(HALTED, False))

    assert wanted.accepted_gaps == (gap,)
    assert Desired.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted
    assert text == "orders starts, without what is gone: kept: logs, partition 0: 10 records"
    again, _ = after(asked(What.RESTART, id="r2"), Known(wanted, True))
    assert again.accepted_gaps is None
    same, text = after(deployed("v2", id="r3"), Known(wanted, True))
    assert same is wanted, text
