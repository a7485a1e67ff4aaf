"""Finds the pipelines of a project, and runs a pipeline's file to record its definitions.

Only drivers call `load`, which executes the user's code; `discover` and `is_script` only read it.
Errors name the line in the project, also when a deployed copy runs.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from headrace.config import Settings
from headrace.define.declarations import Collector, collecting, outside
from headrace.errors import DefinitionError, Error, each_of, together
from headrace.spelling import suggest

PIPELINE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_loaded: set[str] = set()  # modules of the last load
_added: list[str] = []  # what it added to sys.path
_DECORATORS = {"source", "table", "view", "udf", "stream", "listener"}


@dataclass(frozen=True)
class LoadedFile:
    """A pipeline's file after it ran, for `graph.resolve`."""

    name: str
    file: str  # relative to the project
    collector: Collector


def discover(settings: Settings) -> dict[str, Path]:
    project = settings.project
    if settings.pipeline_globs:
        found = [p for pattern in settings.pipeline_globs for p in project.glob(pattern)]
    elif (project / "pipelines").is_dir():
        found = list((project / "pipelines").glob("*.py"))
    else:
        found = [p for p in project.glob("*.py") if "stream" in _decorators(p)]
    files = sorted({p for p in found if p.suffix == ".py" and not p.name.startswith(("_", "."))})
    problems: list[Error] = []
    named: dict[str, Path] = {}
    for path in files:
        shown = os.path.relpath(path, project)
        first = named.setdefault(path.stem, path)
        if problem := _name_problem(path.stem, shown):
            problems.append(problem)
        elif first is not path:
            problems.append(_two_files(path.stem, os.path.relpath(first, project), shown))
    if named and not problems:
        unknown = [name for name in settings.pipelines if name not in named]
        problems += [_no_such_pipeline(settings, name, named) for name in unknown]
    if problems:
        raise together(problems)
    return dict(sorted(named.items()))


def is_script(path: Path) -> bool:
    """Whether a file uses no decorators of Headrace and is run as a plain script."""
    return not _decorators(path)


def pipeline_name(path: Path) -> str:
    if problem := _name_problem(path.stem, str(path)):
        raise problem
    return path.stem


def load(file: str | Path, root: Path, project: Path) -> LoadedFile:
    """Execute the pipeline's file. `root` is the folder of its code: a deployed copy, or the
    project. The collector keeps mistakes in decorators, for `graph` to report; raises
    DefinitionError if the file does not run to its end."""
    root, project = root.resolve(), project.resolve()
    path = Path(file) if Path(file).is_absolute() else root / file
    shown = _display_path(path, root, project)
    if not path.is_file():
        raise _file_missing(path, shown)
    if hidden := _find_hiding_file(path.parent, root):
        raise _hiding_error(hidden, _display_path(hidden, root, project))
    collector = Collector(root=root, project=project)
    _unload()
    _make_importable(path.parent, root, project)
    name = f"headrace_pipeline_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}"
    before = set(sys.modules)  # may include a user's test, which stays
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = str(path)
    # Cached bytecode would be stale after two edits of equal length within a second.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    with collecting(collector):
        try:
            SourceFileLoader(name, str(path)).exec_module(module)
        except SystemExit as exc:
            raise _execution_error(exc, collector, shown) from exc
        except Exception as exc:  # a boundary: the user's code may raise anything
            raise _explain_exception(exc, collector, shown, root) from exc
        finally:
            sys.dont_write_bytecode = writes
            own = {n: m for n, m in list(sys.modules.items()) if _is_under(m, root)}
            _loaded.update(set(own) - before)
    collector.modules = tuple(own.values())
    return LoadedFile(pipeline_name(path), shown, collector)


def _decorators(path: Path) -> set[str]:
    """The decorators of Headrace that a file uses, found without running it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return set()
    try:
        tree = ast.parse(text)
    except SyntaxError:  # search the text, so that `load` reports the mistake
        return {m for m in re.findall(r"^\s*@(?:\w+\.)?(\w+)", text, re.M) if m in _DECORATORS}
    modules: set[str] = set()
    direct: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {a.asname or a.name for a in node.names if a.name == "headrace"}
        elif isinstance(node, ast.ImportFrom) and node.module == "headrace":
            direct |= {a.asname or a.name: a.name for a in node.names}
    used = set()
    for node in ast.walk(tree):
        for mark in getattr(node, "decorator_list", ()):
            called = mark.func if isinstance(mark, ast.Call) else mark
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                used |= {called.attr} if called.value.id in modules else set()
            elif isinstance(called, ast.Name):
                used |= {direct[called.id]} if called.id in direct else set()
    return used & _DECORATORS


def _unload() -> None:
    """Unload modules of earlier loads and plain imports, because each load must record their
    definitions again."""
    recorded = {one.function.__module__ for one in outside().declared}
    for name in (_loaded | recorded) - {"__main__"}:
        sys.modules.pop(name, None)
    sys.path[:] = [p for p in sys.path if p not in _added]
    _loaded.clear()
    _added.clear()


def _is_under(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    if not file or "site-packages" in file or f"{os.sep}.venv{os.sep}" in file:
        return False
    if not os.path.realpath(file).startswith(str(folder) + os.sep):
        return False
    return not (module.__name__ == "headrace" or module.__name__.startswith("headrace."))


def _make_importable(beside: Path, root: Path, project: Path) -> None:
    """Put the code's folders first in sys.path. If a copy runs, remove the project, so that it
    does not import edited files."""
    drop = {str(root), str(beside), *(("", str(project)) if root != project else ())}
    if root != project:
        drop.add(str(project / beside.relative_to(root)) if beside.is_relative_to(root) else "")
    sys.path[:] = [p for p in sys.path if p not in drop]
    _added.extend([str(root)] if beside == root else [str(beside), str(root)])
    sys.path[:0] = _added
    importlib.invalidate_caches()


def _find_hiding_file(*folders: Path) -> Path | None:
    """A file that hides a module of the standard library, because these folders come first in
    sys.path."""
    for folder in dict.fromkeys(folders):
        for path in sorted(folder.glob("*.py")):
            if path.stem in sys.stdlib_module_names:
                return path
    return None


def _hiding_error(path: Path, shown: str) -> DefinitionError:
    better = os.path.join(os.path.dirname(shown), f"my_{path.stem}.py")
    return DefinitionError(
        f"{shown} hides Python's module {path.stem!r}.",
        why=f"Python, Spark and libraries that import {path.stem} would import this file instead.",
        where=shown,
        fix=f"mv '{shown}' '{better}'",
        slug="hides-module",
    )


def _display_path(path: Path, root: Path, project: Path) -> str:
    for folder in (root, project):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return str(path)


def _explain_exception(exc: Exception, collector: Collector, shown: str, root: Path) -> Error:
    if isinstance(exc, Error):
        for one in each_of(exc):
            one.where = one.where or str(collector.innermost(exc.__traceback__) or shown)
        collector.problems.append(exc)
        return together(collector.problems)
    if isinstance(exc, SyntaxError) and exc.filename:
        place = collector.place(exc.filename, exc.lineno or 1)
        return DefinitionError(
            f"{place.file} is not valid Python: {exc.msg}.",
            why=f"Line {place.line}: {exc.text.strip()}" if exc.text else None,
            where=str(place),
            fix=f"Correct line {place.line}, then run: headrace check",
            slug="syntax-error",
        )
    if isinstance(exc, ImportError):
        return _import_error(exc, collector, shown, root)
    return _execution_error(exc, collector, shown)


def _import_error(
    exc: ImportError, collector: Collector, shown: str, root: Path
) -> DefinitionError:
    place = collector.innermost(exc.__traceback__) or shown
    missing = (exc.name or "").split(".")[0]
    own = sorted({p.stem for p in root.glob("*.py")} | {p.parent.name for p in root.glob("*/*.py")})
    fix = suggest(missing, own, f"{sys.executable} -m pip install {missing}")
    if not isinstance(exc, ModuleNotFoundError):
        fix = "Check the spelling, or the version of the package that should provide it."
    return DefinitionError(
        f"{exc}, needed by {place}.",
        why=f"Python searches the project folder first, then the environment {sys.prefix}.",
        where=str(place),
        fix=fix,
        slug="import-error",
    )


def _execution_error(exc: BaseException, collector: Collector, shown: str) -> DefinitionError:
    place = collector.innermost(exc.__traceback__) or shown
    message = traceback.format_exception_only(type(exc), exc)[-1].strip()
    exits = isinstance(exc, SystemExit)
    return DefinitionError(
        f"{shown} exited with {message} while it was being loaded."
        if exits
        else f"{shown} raised {message}",
        why="Headrace runs the file once to read its definitions, before any query starts.",
        where=str(place),
        fix=f"Remove the exit at {place}, or move it into a function."
        if exits
        else f"Correct the code at {place}. Code that needs the Spark session must be inside a "
        "function.",
        slug="definition-raised",
    )


def _file_missing(path: Path, shown: str) -> DefinitionError:
    beside = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
    there = ", ".join(sorted(beside)) or "no .py file"
    return DefinitionError(
        f"The file {shown} does not exist.",
        why=f"{path.parent} contains {there}.",
        where=shown,
        fix=suggest(path.name, beside, "Check the path. To list the pipelines: headrace check"),
        slug="file-missing",
    )


def _name_problem(stem: str, shown: str) -> DefinitionError | None:
    if PIPELINE.fullmatch(stem):
        return None
    better = re.sub(r"[^a-z0-9_-]+", "_", stem.lower()).strip("_-")[:63] or "pipeline"
    return DefinitionError(
        f"{stem!r} is not a valid pipeline name.",
        why="A pipeline is named after its file. Names can be up to 63 characters long, can "
        "contain lowercase letters, digits, _ and -, and must start with a letter or digit.",
        where=shown,
        fix=f"mv '{shown}' '{os.path.join(os.path.dirname(shown), better)}.py'",
        slug="bad-name",
    )


def _two_files(name: str, one: str, other: str) -> DefinitionError:
    return DefinitionError(
        f"Two files define the pipeline {name!r}: {one} and {other}.",
        where=other,
        fix="Rename one of them.",
        slug="name-twice",
    )


def _no_such_pipeline(settings: Settings, name: str, known: Iterable[str]) -> Error:
    return DefinitionError(
        f"[pipelines.{name}] does not match any pipeline.",
        why=f"Known pipelines: {', '.join(known)}.",
        where=settings.place("pipelines", name),
        fix=suggest(name, known, "Remove the section."),
        slug="unknown-pipeline",
    )
