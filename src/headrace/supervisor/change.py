"""How a person's request changes what should run.

`after` is pure: it says what becomes of a request, `loop.py` writes it (`state/desired.py`).
Invariant: every change has a higher generation than the one before, so that a
run can be told from the one that should take its place.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import ControlError, Error
from headrace.model.requests import Request, What
from headrace.model.runs import Desired, Wanted
from headrace.state.desired import NAME

PREVIOUS_MAX = 20


@dataclass(frozen=True, slots=True)
class Known:
    """What a request is judged by."""

    current: Desired | None
    is_live: bool  # a driver of the current generation runs
    is_kept: bool = False  # this supervisor starts it again when it ends
    is_finished: bool = False  # its last run read all that there was
    names: Collection[str] = ()  # of all deployed pipelines
    last_generation: int = 0  # of runs that were before somebody took the desired state away
    has_version: Callable[[str], bool] = lambda version: True


def after(request: Request, known: Known) -> tuple[Desired, str]:
    """The new desired state (the same object if nothing changes) and words. Raises ControlError."""
    if not NAME.fullmatch(request.pipeline):
        raise ControlError(
            f"{request.pipeline!r} is not a pipeline's name.",
            why="A name has letters, digits, _ . and -, and at most 100 of them.",
            slug="bad-name",
        )
    what, current = What(request.what), known.current
    if current is not None and current.request == request.id:  # it was served before a crash
        return current, f"{current.pipeline}: {request.what} was taken note of already"
    if what is What.DEPLOY:
        return _deploy(request, known)
    if current is None:
        raise _unknown(request.pipeline, known.names)
    if not current.version and what not in (What.STOP, What.CUT):
        raise _version_lost(current.pipeline)
    return _CHANGES[what](request, known, current)


def _deploy(request: Request, known: Known) -> tuple[Desired, str]:
    current, name = known.current, request.pipeline
    if not known.has_version(request.version):
        raise _no_version(request.version, name)
    if not request.file:
        raise ControlError(f'The deploy of "{name}" names no file.', slug="bad-request")
    if request.dev:
        _refuse_to_replace(request, known)
    wanted = Desired(
        pipeline=name,
        wanted=Wanted.RUNNING.value,
        version=request.version,
        profile=request.profile,
        file=request.file,
        script=request.script,
        args=tuple(request.args),
        dev=request.dev,
        session=request.id if request.dev else "",
        former=_former(known) if request.dev else None,
        by=request.by,
        at=request.at,
        request=request.id,
    )
    if current is None:
        wanted = replace(wanted, generation=known.last_generation + 1)
        return wanted, f"{name}: version {request.version} is deployed and starts"
    previous = current.previous
    if current.version and current.version != request.version:
        previous = (*previous, current.version)[-PREVIOUS_MAX:]
    wanted = replace(wanted, generation=current.generation + 1, previous=previous)
    same = replace(wanted, generation=current.generation, by=current.by, at=current.at)
    same = replace(same, request=current.request, accepted_gaps=current.accepted_gaps)
    if same == current and known.is_live:
        return current, f"{name} runs version {current.version} already"
    if not known.is_live:
        return wanted, f"{name}: version {request.version} starts"
    return wanted, f"{name}: version {request.version} takes the place of {current.version}"


def _former(known: Known) -> Mapping[str, Any] | None:
    """What comes back when a `run` ends; one that takes the place of another keeps that one's."""
    current = known.current
    if current is None or current.dev:
        return current.former if current is not None else None
    if known.is_finished:  # else it would read everything once more, or a script do its work twice
        current = replace(current, wanted=Wanted.STOPPED.value)
    return current.to_json()


def _refuse_to_replace(request: Request, known: Known) -> None:
    """`run` takes the place of what runs, or would be started again, only if it was told to."""
    current = known.current
    if request.replaces or current is None or current.wanted == Wanted.STOPPED:
        return
    is_awaited = known.is_kept and not known.is_finished and current.wanted == Wanted.RUNNING
    if not known.is_live and (current.dev or not is_awaited):
        return
    name = request.file if request.script else request.pipeline
    raise ControlError(
        f'"{request.pipeline}" is kept running by the supervisor: version {current.version}, '
        f"profile {current.profile}.",
        why="Only one run of a pipeline can use its checkpoints, so that one would be drained.",
        fix=f"headrace run {name} --replace drains it, and puts it back when this run ends",
        slug="kept-running",
    )


def _restore(request: Request, known: Known, current: Desired) -> tuple[Desired, str]:
    if current.former is None or current.session != request.session:
        return current, f"{current.pipeline}: another request has changed it, nothing is put back"
    wanted = replace(restored(current), request=request.id)
    does = "starts again" if wanted.wanted == Wanted.RUNNING else "is deployed again, stopped"
    return wanted, f"{wanted.pipeline}: version {wanted.version}, profile {wanted.profile}, {does}"


def restored(current: Desired) -> Desired:
    """What a `run` has replaced, as it was. A gap is accepted once, so not by this."""
    former = Desired.from_json(current.former or {})
    return replace(former, generation=current.generation + 1, accepted_gaps=None)


def _start(request: Request, known: Known, current: Desired) -> tuple[Desired, str]:
    if current.wanted == Wanted.RUNNING and known.is_live:
        return current, f"{current.pipeline} is running already"
    if current.wanted == Wanted.UNKNOWN and known.is_live:  # now it is known; it need not restart
        settled = replace(_next(current, request, Wanted.RUNNING), generation=current.generation)
        return settled, f"{current.pipeline} is running already, and is kept running from now on"
    words = f"{current.pipeline} starts"
    if request.accepted_gaps is not None:
        words += f", without what is gone: {request.note or 'not looked up'}"
    return _next(current, request, Wanted.RUNNING), words


def _stop(request: Request, known: Known, current: Desired) -> tuple[Desired, str]:
    if current.wanted == Wanted.STOPPED:
        words = "is being stopped already" if known.is_live else "is stopped already"
        return current, f"{current.pipeline} {words}"
    words = "is being stopped" if known.is_live else "is stopped"
    return _next(current, request, Wanted.STOPPED), f"{current.pipeline} {words}"


def _restart(request: Request, known: Known, current: Desired) -> tuple[Desired, str]:
    words = "drains and starts again" if known.is_live else "starts"
    return _next(current, request, Wanted.RUNNING), f"{current.pipeline} {words}"


def _rollback(request: Request, known: Known, current: Desired) -> tuple[Desired, str]:
    version = request.version or (current.previous[-1] if current.previous else "")
    if not version:
        raise ControlError(
            f'"{current.pipeline}" has no earlier version.',
            why=f"It has been {current.version} since its first deploy.",
            slug="no-earlier-version",
        )
    if version == current.version:
        return current, f"{current.pipeline} is at version {version} already"
    if not known.has_version(version):
        raise _no_version(version, current.pipeline)
    if version in current.previous:  # going back: what came after it is not "before" any more
        last = len(current.previous) - 1 - current.previous[::-1].index(version)
        previous = current.previous[:last]
    else:
        previous = (*current.previous, current.version)[-PREVIOUS_MAX:]
    wanted = replace(_next(current, request, Wanted.RUNNING), version=version, previous=previous)
    wanted = replace(wanted, former=None)  # a person has decided since
    return wanted, f"{current.pipeline} goes back from {current.version} to {version}"


_CHANGES = {
    What.START: _start,
    What.STOP: _stop,
    What.CUT: _stop,
    What.RESTART: _restart,
    What.ROLLBACK: _rollback,
    What.RESTORE: _restore,
}


def _next(current: Desired, request: Request, wanted: Wanted) -> Desired:
    former = current.former
    if former is not None and request.session != current.session:
        former = {**former, "wanted": wanted.value}  # a person means the pipeline, not this run
    return replace(
        current,
        wanted=wanted.value,
        former=former,
        generation=current.generation + 1,
        accepted_gaps=request.accepted_gaps,
        by=request.by,
        at=request.at,
        request=request.id,
    )


def _unknown(name: str, names: Collection[str]) -> Error:
    close = difflib.get_close_matches(name, list(names), n=1)
    meant = f'Did you mean "{close[0]}"? ' if close else ""
    there = f"Deployed are: {', '.join(sorted(names)[:20])}." if names else "None is deployed yet."
    return ControlError(
        f'No pipeline "{name}" is deployed.',
        why=meant + there,
        fix=f"headrace up {name}",
        slug="unknown-pipeline",
    )


def _version_lost(name: str) -> Error:
    return ControlError(
        f'Nobody knows which version of "{name}" was deployed.',
        why=f"Its record, desired/{name}.json, was damaged, and none of its runs is kept.",
        fix=f"headrace up {name}",
        slug="unknown-version",
    )


def _no_version(version: str, name: str) -> Error:
    return ControlError(
        f'There is no version "{version}" of "{name}".',
        why="Its copy of the code is not in the state folder.",
        fix=f"headrace up {name}",
        slug="unknown-version",
    )
