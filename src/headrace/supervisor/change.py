"""How a person's request changes what should run.

`after` is pure: it says what becomes of a request, `loop.py` writes it (`state/desired.py`).
Invariant: every change has a higher generation than the one before, so that a
run can be told from the one that should take its place.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

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
    return _CHANGES[what](request, known, current)


def _deploy(request: Request, known: Known) -> tuple[Desired, str]:
    current, name = known.current, request.pipeline
    if not known.has_version(request.version):
        raise _no_version(request.version, name)
    if not request.file:
        raise ControlError(f'The deploy of "{name}" names no file.', slug="bad-request")
    wanted = Desired(
        pipeline=name,
        wanted=Wanted.RUNNING.value,
        version=request.version,
        profile=request.profile,
        file=request.file,
        script=request.script,
        args=tuple(request.args),
        dev=request.dev,
        by=request.by,
        at=request.at,
        request=request.id,
    )
    if current is None:
        wanted = replace(wanted, generation=known.last_generation + 1)
        return wanted, f"{name}: version {request.version} is deployed and starts"
    previous = current.previous
    if current.version != request.version:
        previous = (*previous, current.version)[-PREVIOUS_MAX:]
    wanted = replace(wanted, generation=current.generation + 1, previous=previous)
    same = replace(wanted, generation=current.generation, by=current.by, at=current.at)
    same = replace(same, request=current.request, accepted_gaps=current.accepted_gaps)
    if same == current and known.is_live:
        return current, f"{name} runs version {current.version} already"
    if not known.is_live:
        return wanted, f"{name}: version {request.version} starts"
    return wanted, f"{name}: version {request.version} takes the place of {current.version}"


def _start(request: Request, known: Known, current: Desired) -> tuple[Desired, str]:
    if current.wanted == Wanted.RUNNING and known.is_live:
        return current, f"{current.pipeline} is running already"
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
    return wanted, f"{current.pipeline} goes back from {current.version} to {version}"


_CHANGES = {
    What.START: _start,
    What.STOP: _stop,
    What.CUT: _stop,
    What.RESTART: _restart,
    What.ROLLBACK: _rollback,
}


def _next(current: Desired, request: Request, wanted: Wanted) -> Desired:
    return replace(
        current,
        wanted=wanted.value,
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


def _no_version(version: str, name: str) -> Error:
    return ControlError(
        f'There is no version "{version}" of "{name}".',
        why="Its copy of the code is not in the state folder.",
        fix=f"headrace up {name}",
        slug="unknown-version",
    )
