"""How requests change what should run, and the files of both."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ControlError
from headrace.model.gaps import Gap
from headrace.model.requests import Action, Reply, Request
from headrace.model.runs import Desired
from headrace.model.state_paths import StatePaths
from headrace.state import desired, requests
from headrace.supervisor import requested_changes
from headrace.supervisor.requested_changes import KnownPipeline, apply_request

RUNS = Desired("orders", "running", "v2", "dev", "orders.py", generation=4, previous=("v0", "v1"))
HALTED = replace(RUNS, wanted="stopped")
DOUBTFUL = replace(RUNS, wanted="unknown")
BY_HAND = replace(RUNS, dev=True, session="r0")


def asked(what: Action, pipeline: str = "orders", id: str = "r1", **more: object) -> Request:
    return Request(id, what, "ann", 9.0, pipeline, **more)


def deployed(version: str, **more: object) -> Request:
    return asked(Action.DEPLOY, version=version, file="orders.py", **more)


def test_a_first_deploy_starts_generation_one() -> None:
    wanted, _ = apply_request(deployed("v1"), KnownPipeline(None, False))

    assert (wanted.wanted, wanted.version, wanted.generation) == ("running", "v1", 1)


def test_a_deploy_after_its_desired_state_was_taken_away_is_later_than_all_its_runs() -> None:
    wanted, _ = apply_request(deployed("v1"), KnownPipeline(None, False, last_generation=6))

    assert wanted.generation == 7


def test_a_new_version_rises_and_remembers_the_one_before() -> None:
    wanted, text = apply_request(deployed("v3"), KnownPipeline(RUNS, True))

    assert (wanted.generation, wanted.previous) == (5, ("v0", "v1", "v2"))
    assert text == "orders: version v3 replaces v2"


def test_the_same_version_again_changes_nothing_while_it_runs() -> None:
    wanted, text = apply_request(deployed("v2"), KnownPipeline(RUNS, True))

    assert wanted is RUNS
    assert text == "orders is already running version v2"


def test_the_same_version_again_starts_what_does_not_run() -> None:
    wanted, _ = apply_request(deployed("v2"), KnownPipeline(RUNS, False))

    assert wanted.generation == 5


def test_other_arguments_are_another_deploy() -> None:
    wanted, _ = apply_request(
        deployed("v2", script=True, args=("--fast",)), KnownPipeline(RUNS, True)
    )

    assert (wanted.generation, wanted.args, wanted.previous) == (5, ("--fast",), ("v0", "v1"))


def test_the_list_of_earlier_versions_is_bounded() -> None:
    long = replace(RUNS, previous=tuple(f"v{n}" for n in range(50)))

    wanted, _ = apply_request(deployed("new"), KnownPipeline(long, True))

    assert len(wanted.previous) == requested_changes.PREVIOUS_MAX
    assert wanted.previous[-1] == "v2"


@pytest.mark.parametrize(
    ("what", "current", "is_live", "wanted", "generation", "text"),
    [
        (Action.START, RUNS, True, "running", 4, "orders is already running"),
        (Action.START, RUNS, False, "running", 5, "orders is starting"),
        (Action.START, HALTED, True, "running", 5, "orders is starting"),
        (Action.STOP, RUNS, True, "stopped", 5, "orders is stopping"),
        (Action.STOP, RUNS, False, "stopped", 5, "orders is stopped"),
        (Action.STOP, HALTED, False, "stopped", 4, "orders is already stopped"),
        (Action.CUT, HALTED, True, "stopped", 4, "orders is already stopping"),
        (Action.RESTART, RUNS, True, "running", 5, "orders is draining and restarting"),
        (Action.RESTART, HALTED, False, "running", 5, "orders is starting"),
        (Action.START, DOUBTFUL, False, "running", 5, "orders is starting"),
        (
            Action.START,
            DOUBTFUL,
            True,
            "running",
            4,
            "orders is already running; the supervisor will keep it running",
        ),
        (Action.STOP, DOUBTFUL, True, "stopped", 5, "orders is stopping"),
        (
            Action.STOP,
            desired.damaged_placeholder("orders"),
            False,
            "stopped",
            2,
            "orders is stopped",
        ),
    ],
)
def test_start_stop_and_restart(
    what: Action, current: Desired, is_live: bool, wanted: str, generation: int, text: str
) -> None:
    became, said = apply_request(asked(what), KnownPipeline(current, is_live))

    assert (became.wanted, became.generation, said) == (wanted, generation, text)


@pytest.mark.parametrize("what", [Action.START, Action.RESTART, Action.ROLLBACK])
def test_a_version_that_nobody_knows_is_not_started(what: Action) -> None:
    with pytest.raises(ControlError) as refused:
        apply_request(asked(what), KnownPipeline(desired.damaged_placeholder("orders"), False))

    assert (refused.value.code, refused.value.fix) == ("unknown-version", "headrace up orders")
    wanted, _ = apply_request(
        deployed("v3"), KnownPipeline(desired.damaged_placeholder("orders"), False)
    )
    assert (wanted.wanted, wanted.version, wanted.previous) == ("running", "v3", ())


@pytest.mark.parametrize(
    "known",
    [
        KnownPipeline(RUNS, is_live=True, is_kept=True),
        KnownPipeline(
            RUNS, is_live=False, is_kept=True
        ),  # it waits for its next start, or for a person
        KnownPipeline(RUNS, is_live=True, is_kept=False),  # its supervisor was killed
        KnownPipeline(DOUBTFUL, is_live=True, is_kept=True),
        KnownPipeline(BY_HAND, is_live=True, is_kept=True),  # in another terminal
    ],
)
def test_a_run_is_refused_for_what_is_kept_running_unless_it_is_to_replace_it(
    known: KnownPipeline,
) -> None:
    with pytest.raises(ControlError) as refused:
        apply_request(deployed("v3", dev=True), known)

    assert refused.value.code == "kept-running"
    assert "version v2, profile dev" in refused.value.what
    assert str(refused.value.fix).startswith("Run `headrace run orders --replace`")
    assert apply_request(deployed("v3", dev=True, replaces=True), known)[0].version == "v3"
    assert apply_request(deployed("v3"), known)[0].former is None  # `up` is a decision of its own


@pytest.mark.parametrize(
    "known",
    [
        KnownPipeline(None, is_live=False),
        KnownPipeline(HALTED, is_live=True, is_kept=True),
        KnownPipeline(RUNS, is_live=False, is_kept=False),
        KnownPipeline(RUNS, is_live=False, is_kept=True, is_finished=True),
        KnownPipeline(BY_HAND, is_live=False, is_kept=True),  # it failed, and was edited
        KnownPipeline(DOUBTFUL, is_live=False, is_kept=True),
    ],
)
def test_a_run_takes_the_place_of_what_is_not_kept_running(known: KnownPipeline) -> None:
    assert apply_request(deployed("v3", dev=True), known)[0].version == "v3"


@pytest.mark.parametrize("former", [replace(RUNS, profile="prod"), HALTED, DOUBTFUL])
def test_what_a_run_has_replaced_comes_back_as_it_was(former: Desired) -> None:
    begun, _ = apply_request(
        deployed("v3", id="r1", dev=True, replaces=True), KnownPipeline(former, True, True)
    )
    again, _ = apply_request(
        deployed("v4", id="r2", dev=True, replaces=True), KnownPipeline(begun, True, True)
    )
    ended, _ = apply_request(
        asked(Action.STOP, id="r3", session="r2"), KnownPipeline(again, True, True)
    )

    late, _ = apply_request(
        asked(Action.RESTORE, id="r4", session="r1"), KnownPipeline(ended, False, True)
    )
    back, _ = apply_request(
        asked(Action.RESTORE, id="r5", session="r2"), KnownPipeline(late, False, True)
    )

    assert late is ended  # the first run ended when the second one took its place
    assert back == replace(former, generation=ended.generation + 1, request="r5")


def test_what_was_finished_is_not_done_again_after_a_run_has_replaced_it() -> None:
    known = KnownPipeline(RUNS, False, is_kept=True, is_finished=True)
    begun, _ = apply_request(deployed("v3", id="r1", dev=True), known)

    back, _ = apply_request(
        asked(Action.RESTORE, id="r2", session="r1"), KnownPipeline(begun, False, True)
    )

    assert (back.version, back.wanted) == ("v2", "stopped")


def test_what_a_person_decides_during_a_run_is_not_undone_at_its_end() -> None:
    begun, _ = apply_request(
        deployed("v3", id="r1", dev=True, replaces=True), KnownPipeline(RUNS, True, True)
    )
    for decided in (deployed("v4", id="r2"), asked(Action.ROLLBACK, id="r2")):
        current, _ = apply_request(decided, KnownPipeline(begun, True, True))

        assert (
            apply_request(asked(Action.RESTORE, session="r1"), KnownPipeline(current, True, True))[
                0
            ]
            is current
        )


@pytest.mark.parametrize("what", [Action.STOP, Action.CUT])
def test_a_person_s_stop_during_a_run_holds_after_its_end(what: Action) -> None:
    begun, _ = apply_request(
        deployed("v3", id="r1", dev=True, replaces=True), KnownPipeline(RUNS, True, True)
    )
    halted, _ = apply_request(asked(what, id="r2"), KnownPipeline(begun, True, True))

    back, _ = apply_request(
        asked(Action.RESTORE, id="r3", session="r1"), KnownPipeline(halted, False, True)
    )

    assert (back.version, back.wanted) == ("v2", "stopped")


def test_a_rollback_goes_one_version_back_and_again_one_further() -> None:
    first, _ = apply_request(asked(Action.ROLLBACK), KnownPipeline(RUNS, True))
    second, _ = apply_request(asked(Action.ROLLBACK, id="r2"), KnownPipeline(first, True))

    assert (first.version, first.previous) == ("v1", ("v0",))
    assert (second.version, second.previous, second.generation) == ("v0", (), 6)
    with pytest.raises(ControlError, match="no earlier version"):
        apply_request(asked(Action.ROLLBACK, id="r3"), KnownPipeline(second, True))


@pytest.mark.parametrize("what", [Action.DEPLOY, Action.RESTART, Action.ROLLBACK, Action.STOP])
def test_a_request_that_was_served_before_a_crash_changes_nothing_again(what: Action) -> None:
    more = {"version": "v3", "file": "orders.py"} if what is Action.DEPLOY else {}
    request = asked(what, **more)
    once, _ = apply_request(request, KnownPipeline(RUNS, True))

    twice, _ = apply_request(request, KnownPipeline(once, False))

    assert once is not RUNS
    assert twice is once


def test_a_version_whose_copy_is_gone_is_refused() -> None:
    known = KnownPipeline(RUNS, True, has_version=lambda version: False)

    for request in (deployed("v9"), asked(Action.ROLLBACK, version="v1")):
        with pytest.raises(ControlError) as caught:
            apply_request(request, known)
        assert caught.value.code == "unknown-version"


def test_an_unknown_pipeline_is_refused_with_the_near_miss() -> None:
    with pytest.raises(ControlError) as caught:
        apply_request(
            asked(Action.START, "ordres"), KnownPipeline(None, False, names=("orders", "clicks"))
        )

    assert 'Did you mean "orders"?' in str(caught.value)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101, "a b"])
def test_a_name_that_could_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ControlError) as caught:
        apply_request(asked(Action.DEPLOY, name), KnownPipeline(None, False))

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
    places = StatePaths(tmp_path)
    former = json.loads(json.dumps(RUNS.to_json()))
    other = replace(RUNS, pipeline="other", former=former, dev=True)
    desired.write(places, other)
    body = damage if isinstance(damage, str) else json.dumps({**RUNS.to_json(), **damage})
    places.desired("orders").write_text(body)
    (places.desired_folder / "not a name.json").write_text("{")

    assert desired.read(places, "orders") == desired.damaged_placeholder("orders")
    assert desired.read_all(places) == [desired.damaged_placeholder("orders"), other]
    assert desired.read(places, "never") is None


def test_requests_are_served_oldest_first_and_answered_once(tmp_path: Path) -> None:
    places = StatePaths(tmp_path)
    for number in (2, 1, 3):
        requests.leave(places, Request(f"r{number}", Action.START, "ann", float(number), "orders"))

    found = requests.waiting(places)
    requests.answer(places, Reply("r1", ok=True, text="yes"))

    assert [request.id for request in found] == ["r1", "r2", "r3"]
    assert [request.id for request in requests.waiting(places)] == ["r2", "r3"]
    assert requests.answer_of(places, "r1", 0) == Reply("r1", ok=True, text="yes")
    assert requests.answer_of(places, "r2", 0) is None


def test_a_request_that_was_answered_before_a_crash_is_not_served_again(tmp_path: Path) -> None:
    places = StatePaths(tmp_path)
    request = Request("r1", Action.RESTART, "ann", 1.0, "orders")
    requests.answer(places, Reply("r1", ok=True))
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
    places = StatePaths(tmp_path)
    places.requests.mkdir()
    (places.requests / "r1.json").write_bytes(content)
    requests.leave(places, Request("r2", Action.START, "ann", 2.0, "orders"))

    assert [request.id for request in requests.waiting(places)] == ["r2"]
    assert (places.requests / "r1.json.bad").exists()


def test_answers_and_set_aside_files_are_bounded(tmp_path: Path) -> None:
    places = StatePaths(tmp_path)
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
    accepting = asked(Action.START, accepted_gaps=(gap,), note=note)

    wanted, text = apply_request(accepting, KnownPipeline(HALTED, False))

    assert wanted.accepted_gaps == (gap,)
    assert Desired.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted
    assert (
        text
        == "orders is starting, without the missing records: kept: logs, partition 0: 10 records"
    )
    again, _ = apply_request(asked(Action.RESTART, id="r2"), KnownPipeline(wanted, True))
    assert again.accepted_gaps is None
    same, text = apply_request(deployed("v2", id="r3"), KnownPipeline(wanted, True))
    assert same is wanted, text
