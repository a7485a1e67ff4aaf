"""A project as commands see it: its settings, its paths, and the names that users type.

Invariant: reads only; imports no user code.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace import config, process_identity, secrets
from headrace.config import Settings
from headrace.define import loader
from headrace.errors import ConfigError, Error
from headrace.model.state_paths import StatePaths
from headrace.spelling import closest
from headrace.state import desired, supervisor_lookup


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
    def places(self) -> StatePaths:
        return StatePaths(self.settings.state)

    @cached_property
    def pipeline_files(self) -> dict[str, Path]:
        """Pipelines of the working tree: name to file."""
        return loader.discover(self.settings)

    @property
    def names(self) -> frozenset[str]:
        """Deployed or defined. A file with a bad name does not stop commands that only read."""
        try:
            return self.deployed_names | self.pipeline_files.keys()
        except Error:
            return self.deployed_names

    @cached_property
    def deployed_names(self) -> frozenset[str]:
        return frozenset(item.pipeline for item in desired.read_all(self.places))

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Values of secret references, also from the environment of the supervisor: a service often
        has variables that the user's shell lacks."""
        running = supervisor_lookup.running(self.places)
        theirs = process_identity.environment(running.pid) if running else {}
        raw = self.settings.raw
        return secrets.values(raw) | secrets.values(raw, theirs)


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
            f'The folder "{project}" does not exist.',
            why="--project names the folder that contains headrace.toml.",
            fix="Choose an existing folder, or create a project: headrace init DIR",
            slug="no-project",
        )
    found = project.resolve() if project else config.find_project(Path.cwd())
    return Workspace(config.load(found, profile))


def target(work: Workspace, name: str, args: tuple[str, ...] = ()) -> Target:
    """The argument of `run` and `up`: a pipeline's name, or the path of a pipeline or script."""
    if name in work.pipeline_files:
        return _pipeline(work, name, args)
    path = _path(work, name)
    if path is None:
        raise _unknown(
            name, "pipeline or file", work.pipeline_files, "List the pipelines: headrace check"
        )
    for pipeline, file in work.pipeline_files.items():
        if file.resolve() == path:
            return _pipeline(work, pipeline, args)
    is_script, called = loader.is_script(path), loader.pipeline_name(path)
    if path.is_relative_to(work.project):
        return Target(called, str(path.relative_to(work.project)), is_script, args)
    if not is_script:
        raise ConfigError(
            f'"{name}" is a pipeline outside the project {work.project}.',
            why="A pipeline must be inside the project whose settings it uses. Only scripts can be "
            "elsewhere.",
            fix=f"headrace --project {path.parent} run {path.name}",
            slug="outside-project",
        )
    return Target(called, str(path), is_script, args)


def targets(work: Workspace, names: Iterable[str], args: tuple[str, ...] = ()) -> list[Target]:
    """The named targets, or all pipelines of the project. Raises if it has no pipelines."""
    found = [target(work, name, args) for name in names or sorted(work.pipeline_files)]
    if not found:
        raise ConfigError(
            f"The project {work.project} has no pipelines.",
            why="A pipeline is a file in pipelines/ (or, without that folder, a .py file in the "
            "project folder) that defines an @hr.stream.",
            fix="Create a small working project: headrace init DIR",
            slug="no-pipelines",
        )
    return found


def _pipeline(work: Workspace, name: str, args: tuple[str, ...]) -> Target:
    if args:
        raise ConfigError(
            f'"{name}" is a pipeline, so it accepts no arguments (given: {" ".join(args)}).',
            why="Only scripts (files without Headrace definitions) accept arguments.",
            fix=f"Run it without arguments: headrace run {name}",
            slug="pipeline-arguments",
        )
    path = work.pipeline_files[name]
    return Target(name, str(Path(os.path.relpath(path, work.project))))


def _path(work: Workspace, name: str) -> Path | None:
    for base in (Path.cwd(), work.project):
        path = (base / name).resolve()
        if path.is_file():
            return path
    return None


def resolve_pipeline(work: Workspace, name: str) -> str:
    """A deployed or defined pipeline, by name or by the path of its file."""
    if desired.NAME.fullmatch(name) and desired.read(work.places, name) is not None:
        return name  # the usual case, without reading the others
    known = work.names
    if name in known:
        return name
    if name.endswith(".py") and Path(name).stem in known:
        return Path(name).stem
    raise _unknown(name, "pipeline", known, "List the pipelines: headrace status")


def resolve_query(
    work: Workspace, name: str, queries: dict[str, tuple[str, ...]]
) -> tuple[str, str | None]:
    """PIPELINE, PIPELINE/QUERY, or a bare QUERY where only one pipeline has it."""
    pipelines = work.names | queries.keys()
    pipeline, slash, query = name.partition("/")
    if slash:
        if pipeline not in pipelines:
            raise _unknown(pipeline, "pipeline", pipelines, "List the pipelines: headrace status")
        if queries.get(pipeline) and query not in queries[pipeline]:
            raise _unknown(
                query,
                f"query in {pipeline}",
                queries[pipeline],
                "List the queries: headrace status",
            )
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
            f'"{name}" is a query in {len(owners)} pipelines.',
            why=f"It could be any of: {full}.",
            fix=f"Add the name of the pipeline, for example: {owners[0]}/{name}",
            slug="ambiguous-name",
        )
    everything = pipelines | {q for names in queries.values() for q in names}
    raise _unknown(
        name, "pipeline or query", everything, "List pipelines and queries: headrace status"
    )


def _unknown(name: str, what: str, known: Iterable[str], fix: str) -> Error:
    names = sorted(known)
    close = closest(name, names) or closest(Path(name).stem, names)
    why = f'Did you mean "{close}"? ' if close else ""
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return ConfigError(
        f'Unknown {what} "{name}".',
        why=why + (f"Known: {shown}." if names else "None exist yet."),
        fix=fix,
        slug="unknown-name",
    )
