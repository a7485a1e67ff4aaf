"""A project as commands meet it: its settings, its places, and the names a person may type.

Invariant: reading only; nothing here writes below the state folder or imports a user's file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace import config, processes, references
from headrace.config import Settings
from headrace.define import loader
from headrace.errors import ConfigError, Error
from headrace.model.places import Places
from headrace.state import desired, supervisors
from headrace.words import near


@dataclass(frozen=True)
class Workspace:
    settings: Settings

    @property
    def project(self) -> Path:
        return self.settings.project

    @property
    def profile(self) -> str:
        return self.settings.profile

    @cached_property
    def places(self) -> Places:
        return Places(self.settings.state)

    @cached_property
    def defined(self) -> dict[str, Path]:
        """Pipelines of the working tree: name to file."""
        return loader.discover(self.settings)

    @property
    def names(self) -> frozenset[str]:
        """Deployed or defined. Who only looks is not stopped by a file with a bad name."""
        try:
            return self.deployed | self.defined.keys()
        except Error:
            return self.deployed

    @cached_property
    def deployed(self) -> frozenset[str]:
        return frozenset(item.pipeline for item in desired.listed(self.places))

    @cached_property
    def secrets(self) -> frozenset[str]:
        """What references stand for, here and where the supervisor runs: a service often has
        variables that the shell of the person who looks does not have."""
        running = supervisors.running(self.places)
        theirs = processes.environment(running.pid) if running else {}
        raw = self.settings.raw
        return references.values(raw) | references.values(raw, theirs)


@dataclass(frozen=True, slots=True)
class Target:
    """Something that can be run: a pipeline's file, or a script with its arguments."""

    pipeline: str
    file: str  # relative to the project; absolute for a script elsewhere
    script: bool = False
    args: tuple[str, ...] = ()

    @property
    def outside(self) -> Path | None:
        return Path(self.file) if Path(self.file).is_absolute() else None


def open_workspace(project: Path | None, profile: str) -> Workspace:
    if project is not None and not project.is_dir():
        raise ConfigError(
            f'There is no folder "{project}".',
            why="--project names the folder that holds headrace.toml.",
            fix="give an existing folder, or make one: headrace init DIR",
            slug="no-project",
        )
    found = project.resolve() if project else config.find_project(Path.cwd())
    return Workspace(config.load(found, profile))


def target(work: Workspace, name: str, args: tuple[str, ...] = ()) -> Target:
    """What `run` and `up` are given: a pipeline's name, or the path of a pipeline or script."""
    if name in work.defined:
        return _pipeline(work, name, args)
    path = _path(work, name)
    if path is None:
        raise _unknown(name, "pipeline or file", work.defined, "headrace check lists the pipelines")
    for pipeline, file in work.defined.items():
        if file.resolve() == path:
            return _pipeline(work, pipeline, args)
    is_script, called = loader.is_script(path), loader.pipeline_name(path)
    if path.is_relative_to(work.project):
        return Target(called, str(path.relative_to(work.project)), is_script, args)
    if not is_script:
        raise ConfigError(
            f'"{name}" is a pipeline outside the project {work.project}.',
            why="A pipeline belongs to the project whose settings it uses; only scripts do not.",
            fix=f"headrace --project {path.parent} run {path.name}",
            slug="outside-project",
        )
    return Target(called, str(path), is_script, args)


def targets(work: Workspace, names: Iterable[str], args: tuple[str, ...] = ()) -> list[Target]:
    """The named ones, or all pipelines of the project; an error if there is none at all."""
    found = [target(work, name, args) for name in names or sorted(work.defined)]
    if not found:
        raise ConfigError(
            f"The project {work.project} has no pipelines.",
            why="A pipeline is a file in pipelines/ (or, without that folder, a .py file of the "
            "project's folder) that defines an @hr.stream.",
            fix="headrace init DIR writes a small project that runs",
            slug="no-pipelines",
        )
    return found


def _pipeline(work: Workspace, name: str, args: tuple[str, ...]) -> Target:
    if args:
        raise ConfigError(
            f'"{name}" is a pipeline and takes no arguments; given: {" ".join(args)}.',
            why="Only a script (a file without Headrace definitions) reads its command line.",
            fix=f"headrace run {name}",
            slug="pipeline-arguments",
        )
    path = work.defined[name]
    return Target(name, str(Path(os.path.relpath(path, work.project))))


def _path(work: Workspace, name: str) -> Path | None:
    for base in (Path.cwd(), work.project):
        path = (base / name).resolve()
        if path.is_file():
            return path
    return None


def known_pipeline(work: Workspace, name: str) -> str:
    """A pipeline that is deployed or defined, by name or by the path of its file."""
    if desired.NAME.fullmatch(name) and desired.read(work.places, name) is not None:
        return name  # the usual case, without a look at all the others
    known = work.names
    if name in known:
        return name
    if name.endswith(".py") and Path(name).stem in known:
        return Path(name).stem
    raise _unknown(name, "pipeline", known, "headrace status lists the pipelines")


def known_query(
    work: Workspace, name: str, queries: dict[str, tuple[str, ...]]
) -> tuple[str, str | None]:
    """PIPELINE, PIPELINE/QUERY, or a bare QUERY where only one pipeline has it."""
    pipelines = work.names | queries.keys()
    pipeline, slash, query = name.partition("/")
    if slash:
        if pipeline not in pipelines:
            raise _unknown(pipeline, "pipeline", pipelines, "headrace status lists the pipelines")
        if queries.get(pipeline) and query not in queries[pipeline]:
            raise _unknown(query, f"query in {pipeline}", queries[pipeline], "headrace status")
        return pipeline, query
    if name in pipelines:
        return name, None
    if name.endswith(".py") and Path(name).stem in pipelines:
        return Path(name).stem, None
    owners = sorted(p for p, names in queries.items() if name in names)
    if len(owners) == 1:
        return owners[0], name
    if owners:
        full = ", ".join(f"{p}/{name}" for p in owners)
        raise ConfigError(
            f'"{name}" is a query of {len(owners)} pipelines.',
            why=f"It could be {full}.",
            fix=f"say which: {owners[0]}/{name}",
            slug="ambiguous-name",
        )
    everything = pipelines | {q for names in queries.values() for q in names}
    raise _unknown(name, "pipeline or query", everything, "headrace status lists them")


def _unknown(name: str, what: str, known: Iterable[str], fix: str) -> Error:
    names = sorted(known)
    close = near(name, names) or near(Path(name).stem, names)
    why = f'Did you mean "{close}"? ' if close else ""
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return ConfigError(
        f'There is no {what} "{name}".',
        why=why + (f"There is: {shown}." if names else "There is none yet."),
        fix=fix,
        slug="unknown-name",
    )
