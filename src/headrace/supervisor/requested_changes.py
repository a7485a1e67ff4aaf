"""How a request changes the desired state. Pure; `loop.py` writes the result.

Invariant: every change has a higher generation, which distinguishes a run from the one that should
replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import ControlError, Error
from headrace.model.requests import Action, Request
from headrace.model.runs import Desired, Wanted
from headrace.spelling import closest
from headrace.state.desired import NAME

PREVIOUS_MAX = 20


@dataclass(frozen=True, slots=True)
class KnownPipeline:
    current: Desired | None
    is_live: bool  # a driver of the current generation runs
    is_kept: bool = False  # this supervisor restarts it
    is_finished: bool = False  # its last run has read all its input
    names: Collection[str] = ()  # of all deployed pipelines
    last_generation: int = 0  # of earlier runs, if the desired state was lost
    has_version: Callable[[str], bool] = lambda version: True


def apply_request(request: Request, known: KnownPipeline) -> tuple[Desired, str]:
    """The new desired state (the same object if unchanged) and a text. Raises ControlError."""
    if not NAME.fullmatch(request.pipeline):
        raise ControlError(
            f"Invalid pipeline name: {request.pipeline!r}.",
            why="Names can be up to 100 characters long and can contain letters, digits, _, . and "
            "-.",
            slug="bad-name",
        )
    what, current = Action(request.what), known.current
    if current is not None and current.request == request.id:  # served before a crash
        return current, f"{current.pipeline}: {request.what} was already applied"
    if what is Action.DEPLOY:
        return _deploy(request, known)
    if current is None:
        raise _unknown(request.pipeline, known.names)
    if not current.version and what not in (Action.STOP, Action.CUT):
        raise _version_lost(current.pipeline)
    return _CHANGES[what](request, known, current)


def _deploy(request: Request, known: KnownPipeline) -> tuple[Desired, str]:
    current, name = known.current, request.pipeline
    if not known.has_version(request.version):
        raise _no_version(request.version, name)
    if not request.file:
        raise ControlError(
            f'The deploy request for "{name}" does not name a file.', slug="bad-request"
        )
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
        return wanted, f"{name}: version {request.version} is deployed and starting"
    previous = current.previous
    if current.version and current.version != request.version:
        previous = (*previous, current.version)[-PREVIOUS_MAX:]
    wanted = replace(wanted, generation=current.generation + 1, previous=previous)
    same = replace(wanted, generation=current.generation, by=current.by, at=current.at)
    same = replace(same, request=current.request, accepted_gaps=current.accepted_gaps)
    if same == current and known.is_live:
        return current, f"{name} is already running version {current.version}"
    if not known.is_live:
        return wanted, f"{name}: version {request.version} is starting"
    return wanted, f"{name}: version {request.version} replaces {current.version}"


def _former(known: KnownPipeline) -> Mapping[str, Any] | None:
    """The state to restore when a `run` ends; a `run` that replaces another keeps its former."""
    current = known.current
    if current is None or current.dev:
        return current.former if current is not None else None
    if (
        known.is_finished
    ):  # else it would read everything again, or a script would do its work twice
        current = replace(current, wanted=Wanted.STOPPED.value)
    return current.to_json()


def _refuse_to_replace(request: Request, known: KnownPipeline) -> None:
    """`run` replaces a kept pipeline only with --replace."""
    current = known.current
    if request.replaces or current is None or current.wanted == Wanted.STOPPED:
        return
    is_awaited = known.is_kept and not known.is_finished and current.wanted == Wanted.RUNNING
    if not known.is_live and (current.dev or not is_awaited):
        return
    name = request.file if request.script else request.pipeline
    raise ControlError(
        f'The supervisor is already running "{request.pipeline}": version {current.version}, '
        f"profile {current.profile}.",
        why="Only one run at a time can use a pipeline's checkpoints.",
        fix=f"Run `headrace run {name} --replace`, which drains the running version and restores "
        "it when your run ends.",
        slug="kept-running",
    )


def _restore(request: Request, known: KnownPipeline, current: Desired) -> tuple[Desired, str]:
    if current.former is None or current.session != request.session:
        return current, f"{current.pipeline}: not restored, because another request changed it"
    wanted = replace(restore_former(current), request=request.id)
    state = "starting" if wanted.wanted == Wanted.RUNNING else "stopped"
    version = f"version {wanted.version}, profile {wanted.profile}"
    return wanted, f"{wanted.pipeline}: restored {version}; it is {state}"


def restore_former(current: Desired) -> Desired:
    """The state that a `run` replaced. An accepted gap applies once, so it is not restored."""
    former = Desired.from_json(current.former or {})
    return replace(former, generation=current.generation + 1, accepted_gaps=None)


def _start(request: Request, known: KnownPipeline, current: Desired) -> tuple[Desired, str]:
    if current.wanted == Wanted.RUNNING and known.is_live:
        return current, f"{current.pipeline} is already running"
    if current.wanted == Wanted.UNKNOWN and known.is_live:  # no restart needed
        settled = replace(_next(current, request, Wanted.RUNNING), generation=current.generation)
        return (
            settled,
            f"{current.pipeline} is already running; the supervisor will keep it running",
        )
    text = f"{current.pipeline} is starting"
    if request.accepted_gaps is not None:
        text += f", without the missing records: {request.note or 'not counted'}"
    return _next(current, request, Wanted.RUNNING), text


def _stop(request: Request, known: KnownPipeline, current: Desired) -> tuple[Desired, str]:
    if current.wanted == Wanted.STOPPED:
        text = "is already stopping" if known.is_live else "is already stopped"
        return current, f"{current.pipeline} {text}"
    text = "is stopping" if known.is_live else "is stopped"
    return _next(current, request, Wanted.STOPPED), f"{current.pipeline} {text}"


def _restart(request: Request, known: KnownPipeline, current: Desired) -> tuple[Desired, str]:
    text = "is draining and restarting" if known.is_live else "is starting"
    return _next(current, request, Wanted.RUNNING), f"{current.pipeline} {text}"


def _rollback(request: Request, known: KnownPipeline, current: Desired) -> tuple[Desired, str]:
    version = request.version or (current.previous[-1] if current.previous else "")
    if not version:
        raise ControlError(
            f'"{current.pipeline}" has no earlier version.',
            why=f"Headrace has no record of a version before {current.version}.",
            slug="no-earlier-version",
        )
    if version == current.version:
        return current, f"{current.pipeline} is already at version {version}"
    if not known.has_version(version):
        raise _no_version(version, current.pipeline)
    if version in current.previous:  # drop the versions after it
        last = len(current.previous) - 1 - current.previous[::-1].index(version)
        previous = current.previous[:last]
    else:
        previous = (*current.previous, current.version)[-PREVIOUS_MAX:]
    wanted = replace(_next(current, request, Wanted.RUNNING), version=version, previous=previous)
    wanted = replace(wanted, former=None)  # this decision replaces the former state
    return wanted, f"{current.pipeline} is rolling back from {current.version} to {version}"


_CHANGES = {
    Action.START: _start,
    Action.STOP: _stop,
    Action.CUT: _stop,
    Action.RESTART: _restart,
    Action.ROLLBACK: _rollback,
    Action.RESTORE: _restore,
}


def _next(current: Desired, request: Request, wanted: Wanted) -> Desired:
    former = current.former
    if former is not None and request.session != current.session:
        # The request is for the pipeline, not for this run.
        former = {**former, "wanted": wanted.value}
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
    close = closest(name, names)
    meant = f'Did you mean "{close}"? ' if close else ""
    listed = f"Deployed: {', '.join(sorted(names)[:20])}."
    there = listed if names else "No pipeline is deployed yet."
    return ControlError(
        f'Pipeline "{name}" is not deployed.',
        why=meant + there,
        fix=f"headrace up {name}",
        slug="unknown-pipeline",
    )


def _version_lost(name: str) -> Error:
    return ControlError(
        f'The deployed version of "{name}" is unknown.',
        why=f"Its record, desired/{name}.json, was damaged, and no run records are left.",
        fix=f"headrace up {name}",
        slug="unknown-version",
    )


def _no_version(version: str, name: str) -> Error:
    return ControlError(
        f'Unknown version "{version}" of "{name}".',
        why="The state folder has no copy of that version's code.",
        fix=f"headrace up {name}",
        slug="unknown-version",
    )
