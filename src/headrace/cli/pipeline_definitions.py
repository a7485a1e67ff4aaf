"""Defines pipelines: takes a snapshot, runs a driver in definition mode, reads the results.

Used by `check`, and by `up` before it deploys. Invariant: user code runs only in the child process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.cli import spinner
from headrace.define import deployed_code
from headrace.errors import (
    ConfigError,
    DefinitionError,
    Error,
    SetupError,
    error_from_dict,
    together,
)
from headrace.model.pipeline import Definition
from headrace.model.runs import Exit, RunSpec
from headrace.project import system_topics
from headrace.project.workspace import Target, Workspace, targets
from headrace.state import definitions
from headrace.supervisor import lock, process

TIMEOUT_S = 180.0


def define(work: Workspace, names: Sequence[str], *, quiet: bool = False) -> list[Definition]:
    """Definitions of the named pipelines, or of all, without leaving a version behind. Raises every
    problem at once."""
    found = targets(work, names)
    scripts = [target.file for target in found if target.script]
    if scripts:
        raise ConfigError(
            f"{scripts[0]} defines no pipeline, so there is nothing to check.",
            why="A file without @hr.stream is a script; its queries are known only when it runs.",
            where=scripts[0],
            fix=f"headrace run {scripts[0]}",
            slug="script-has-no-definition",
        )
    known = deployed_code.names(work.places)
    version = snapshot(work)
    stamp = deployed_code.stamp(work.places, version)
    try:
        return define_version(work, version, found, quiet=quiet)
    finally:
        if version not in known:
            deployed_code.discard(work.places, version, stamp)
        # Users of `check` may never start a supervisor, which also does it.
        deployed_code.prune(work.places, time.time())


def snapshot(work: Workspace, outside: Path | None = None) -> str:
    """Copy the working tree and return its content hash."""
    system_topics.check(work.settings, work.names)  # else only a log would report it
    try:
        lock.prepare_state(work.places)
        return deployed_code.snapshot(work.project, work.places, work.settings.include, outside)
    except OSError as exc:
        raise SetupError(
            f"Cannot write to the state folder: {exc.strerror or exc}.",
            why="Headrace keeps a copy of the deployed code there, so that restarts use the same "
            "code.",
            where=str(exc.filename or work.places.state),
            fix="Free disk space, make the folder writable, or set [project] state to another "
            "folder.",
            slug="state-unwritable",
        ) from exc


def define_version(
    work: Workspace, version: str, wanted: Sequence[Target], *, quiet: bool = False
) -> list[Definition]:
    """Define all files in one child. Raises all problems at once, with the worst exit code.

    If the code of a file ends the child, that is a problem too: the rest is defined without it."""
    what = wanted[0].pipeline if len(wanted) == 1 else f"{len(wanted)} pipelines"
    problems: list[Error] = []
    left = [target.file for target in wanted]
    with spinner.show(f"checking {what} (starts Spark, runs no query)", quiet=quiet):
        while left:
            spec = child_spec(work, version, wanted[0].pipeline, left[0])
            spec = replace(spec, define=tuple(left))
            try:
                problems += _problems(process.to_the_end(work.places, spec, TIMEOUT_S))
                break
            except DefinitionError as exc:
                problems.append(exc)
                left.remove(str(exc.where))
    if problems:
        raise together(problems)
    return [_read(work, version, target) for target in wanted]


def child_spec(work: Workspace, version: str, pipeline: str, file: str = "") -> RunSpec:
    """For a driver that runs no pipeline and ends by itself."""
    return RunSpec(
        run="",
        pipeline=pipeline,
        project=str(work.project),
        state=str(work.places.state),
        version=version,
        profile=work.profile,
        file=file,
        at=time.time(),
    )


def _problems(ended: Exit) -> list[Error]:
    bodies = list(ended.all_problems)
    if not bodies and ended.code != 0:
        what = f"The check exited with code {ended.code} without reporting an error."
        bodies = [{"what": what, "fix": "Run the check again."}]
    kind = SetupError if ended.code == 3 else DefinitionError
    return [error_from_dict(body, kind) for body in bodies]


def _read(work: Workspace, version: str, target: Target) -> Definition:
    definition = definitions.read(work.places, version, work.profile, target.pipeline)
    if definition is None:
        raise SetupError(
            f'The check of "{target.pipeline}" succeeded but wrote no readable definition.',
            where=str(work.places.definition(version, work.profile, target.pipeline)),
            fix="Run the check again. If that does not help, delete this version's folder.",
            slug="no-definition",
        )
    return definition
