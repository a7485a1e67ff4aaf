"""The rules of the house, as functions from source code to a list of complaints.

Read by test_house.py, which holds them against src/headrace and, one by one, against a seeded bad
example. Who may be excused from a rule, and why, stands in test_house.py.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = "headrace"
LINES = {"module": 400, "function": 70, "class": 200}
BANNED_FILES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}
NOUNS_IN_ING = {"testing", "spelling"}  # as the field calls it
BANNED_ENDINGS = ("Manager", "Handler", "Helper", "Util", "Utils")
BANNED_IMPORTS = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}

# Who may import whom: strictly downward, never sideways. What a driver uses never uses the store.
GROUND = {
    "errors", "model", "durations", "settings_schema", "config", "logs", "json_file",
    "process_identity", "secrets", "spelling", "state", "printable_text",
}  # fmt: skip
BELOW_DEFINE = GROUND | {"connectors", "checkpoints", "failures"}
BELOW_EXPLORE = BELOW_DEFINE | {"transforms", "define", "store"}
BELOW_PROJECT = BELOW_EXPLORE | {"explore", "health", "alerts", "metrics"}
BELOW_PROCESSES = BELOW_PROJECT | {"project"}
MAY_IMPORT: Mapping[str, Set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "health": {"errors", "model"},
    "json_file": {"errors", "model"},
    "process_identity": {"errors", "model"},
    "secrets": {"errors"},
    "logs": {"errors", "model"},
    "durations": {"errors"},
    "spelling": set(),
    "printable_text": set(),
    "settings_schema": {"errors", "model", "durations", "spelling"},
    "config": {"errors", "model", "spelling", "settings_schema", "logs", "json_file"},
    "state": {"errors", "model", "json_file", "process_identity"},
    "store": GROUND,
    "connectors": GROUND,
    "checkpoints": GROUND,
    "failures": GROUND,
    "transforms": BELOW_DEFINE,
    "define": BELOW_DEFINE | {"transforms"},
    "explore": BELOW_EXPLORE,
    "alerts": GROUND | {"connectors", "failures", "store"},
    "metrics": GROUND | {"connectors", "store"},
    "project": BELOW_PROJECT,
    "driver": BELOW_PROJECT - {"store", "health"},
    "supervisor": BELOW_PROJECT,
    "notebook": BELOW_DEFINE | {"transforms", "define", "explore", "driver"},
    "relay": BELOW_PROCESSES,
    "web": BELOW_PROCESSES,
    "cli": BELOW_PROCESSES | {"driver", "supervisor", "web", "relay", "testing", "demo"},
    "testing": BELOW_PROCESSES | {"driver", "supervisor"},
    "demo": BELOW_PROCESSES | {"testing"},
    "__main__": {"cli"},
    ROOT: {"errors", "define", "connectors", "transforms", "explore", "notebook"},
}
SPARK_ROOMS = {"driver", "connectors", "transforms", "notebook", "testing", "demo"}
SPARK_AT_THE_TOP = {"demo"}  # user code: looks as a user would write it
PRINTING_ROOMS = {"cli", "demo"}
HEAVY = {
    "pyspark", "pydantic", "duckdb", "sqlglot", "pandas", "pyarrow", "numpy", "plotly", "IPython",
}  # fmt: skip
SPARK_KEYS = {
    "batchId", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond", "durationMs",
    "stateOperators", "eventTime", "startOffset", "endOffset", "latestOffset", "numRowsTotal",
    "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark", "memoryUsedBytes",
    "customMetrics", "observedMetrics", "numOutputRows", "triggerExecution", "batchDuration",
    "addBatch", "getBatch", "walCommit", "queryPlanning", "commitOffsets", "commitBatch",
    "operatorName", "commitTimeMs", "numShufflePartitions", "logOffset", "runId",
}  # fmt: skip
PROCESS_CALLS = {"kill", "killpg", "fork", "forkpty", "system", "popen", "posix_spawn"}


@dataclass(frozen=True)
class Source:
    """One module. `module` is dotted; a room's `__init__.py` has the room's name."""

    module: str
    text: str
    file: str = ""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.module)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @property
    def room(self) -> str:
        parts = self.module.split(".")
        return parts[1] if len(parts) > 1 else ROOT

    @property
    def is_package(self) -> bool:
        return self.file.endswith("__init__.py")


@dataclass(frozen=True)
class Import:
    """`when`: top (as the module is imported), lazy (inside a function), typing (never)."""

    target: str
    line: int
    when: str


def sources(folder: Path) -> list[Source]:
    """Every module below `folder`, which is the package's own folder."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Source(module, path.read_text(encoding="utf-8"), path.name))
    return found


@cache  # asked by five rules of every module
def imports(source: Source, modules: frozenset[str]) -> tuple[Import, ...]:
    """What a module imports, also by `import_module("…")` and by "module:name" in a table."""
    found: list[Import] = []
    for node, when in _with_moment(source.tree, "top"):
        found += [Import(target, node.lineno, when) for target in _targets(node, modules)]
    return tuple(found)


def _targets(node: ast.AST, modules: Set[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in modules else str(node.module) for name in names]
    if isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
        return [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        entry = re.fullmatch(r"(headrace(?:\.\w+)+):\w+", node.value)
        return [entry[1]] if entry else []
    return []


def _with_moment(node: ast.AST, when: str) -> Iterator[tuple[ast.AST, str]]:
    for child in ast.iter_child_nodes(node):
        moment = when
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            moment = "lazy" if when == "top" else when
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            moment = "typing"
        # A table of "module:name" is followed on first use.
        yield child, "lazy" if isinstance(child, ast.Constant) and when == "top" else moment
        yield from _with_moment(child, moment)


def _called(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _room_of(target: str) -> str:
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else ROOT


def layers(source: Source, modules: frozenset[str]) -> list[str]:
    """Rooms import downward only."""
    if source.room not in MAY_IMPORT:
        return [f"{source.module}: room {source.room!r} has no place in tests/house.py MAY_IMPORT"]
    allowed = MAY_IMPORT[source.room] | {source.room}
    return [
        f"{source.module}:{found.line}: {source.room} may not import {found.target}"
        for found in imports(source, modules)
        if found.target.split(".")[0] == ROOT
        and found.target != ROOT  # the version, for whoever shows it
        and _room_of(found.target) not in allowed
    ]


def graph(all_sources: list[Source], moments: Set[str]) -> dict[str, set[str]]:
    """Module -> modules of ours that it imports at one of these moments."""
    modules = frozenset(source.module for source in all_sources)
    return {
        source.module: {
            found.target
            for found in imports(source, modules)
            if found.when in moments and found.target in modules
        }
        for source in all_sources
    }


def reached(edges: Mapping[str, Set[str]], start: Set[str]) -> dict[str, str]:
    """Every module that `start` reaches -> the way to it, as words."""
    ways = {module: module for module in sorted(start)}
    todo = list(ways)
    while todo:
        module = todo.pop(0)
        for target in sorted(edges.get(module, set())):
            if target not in ways:
                ways[target] = f"{ways[module]} -> {target}"
                todo.append(target)
    return ways


def driver_reaches_store(all_sources: list[Source]) -> list[str]:
    """Not directly and not through others: a driver lives on while the store is broken."""
    edges = graph(all_sources, {"top", "lazy"})
    start = {source.module for source in all_sources if source.room == "driver"}
    return [
        way for module, way in reached(edges, start).items() if module.startswith(f"{ROOT}.store")
    ]


def cycles(all_sources: list[Source]) -> list[str]:
    """Also those that an import inside a function hides."""
    edges = graph(all_sources, {"top", "lazy"})
    found = []
    for module in edges:
        for target in sorted(edges[module]):
            back = reached(edges, {target}).get(module)
            if target != module and back and module < target:
                found.append(f"{module} -> {back}")
    return found


def heavy_start(all_sources: list[Source], start: Set[str]) -> list[str]:
    """What `import headrace` and `headrace --help` load must not load a heavy package."""
    modules = frozenset(source.module for source in all_sources)
    edges = graph(all_sources, {"top"})
    for module, targets in edges.items():  # importing a.b.c also runs a and a.b
        parents = {t.rsplit(".", n)[0] for t in {*targets, module} for n in range(1, t.count("."))}
        edges[module] = targets | {p for p in parents if p in modules and p != module}
    ways = reached(edges, start)
    return [
        f"{ways[source.module]} -> {found.target} (line {found.line})"
        for source in all_sources
        if source.module in ways
        for found in imports(source, modules)
        if found.when == "top" and found.target.split(".")[0] in HEAVY
    ]


def connector_classes(all_sources: list[Source]) -> frozenset[str]:
    """Names of the classes in `connectors` that derive from Connector, also indirectly."""
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for source in all_sources
        if source.room == "connectors"
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    }
    found: set[str] = set()
    while more := {n for n, of in bases.items() if of & {"Connector", *found}} - found:
        found |= more
    return frozenset(found)


def connector_class_uses(source: Source, classes: Set[str]) -> list[str]:
    """Other packages decide by `capabilities` and methods. A type checker may know the classes."""
    if source.room == "connectors":
        return []
    found = []
    for node, when in _with_moment(source.tree, "top"):
        used: list[str] = []
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{ROOT}.connectors"):
            used = [alias.name for alias in node.names if alias.name in classes]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = [node.attr] if node.attr in classes else []
        if when != "typing":
            found += [f"{source.module}:{node.lineno}: connector class {name}" for name in used]
    return found


def forbidden_imports(source: Source) -> list[str]:
    """Packages that have a room of their own, and packages that have none."""
    found = []
    for item in imports(source, frozenset()):
        package = item.target.split(".")[0]
        place = f"{source.module}:{item.line}: {item.target}"
        if package in BANNED_IMPORTS:
            found.append(f"{place}: JSON between processes, never pickle")
        elif package == "sqlite3" and source.room != "store":
            found.append(f"{place}: SQL on our own state only in store")
        elif package == "duckdb" and source.room != "explore":
            found.append(f"{place}: duckdb only in explore")
        elif package in ("subprocess", "multiprocessing", "pty"):
            found.append(f"{place}: processes only in supervisor/process.py")
        elif package in ("pyspark", "py4j"):
            found += [f"{place}: {why}" for why in _wrong_with_spark(source, item)]
        elif source.room == "model" and package not in {*sys.stdlib_module_names, ROOT}:
            found.append(f"{place}: model is standard library only")
    return found


def _wrong_with_spark(source: Source, item: Import) -> list[str]:
    if source.room not in SPARK_ROOMS:
        return [f"pyspark only in {', '.join(sorted(SPARK_ROOMS))}"]
    if item.when == "top" and source.room not in SPARK_AT_THE_TOP:
        return ["pyspark only inside functions"]
    return []


def spark_keys(source: Source) -> list[str]:
    """Keys of Spark's progress object, outside the module that translates it."""
    if source.module == f"{ROOT}.model.progress":
        return []
    return [
        f"{source.module}:{node.lineno}: {node.value!r}: only in model/progress.py"
        for node in source.nodes
        if isinstance(node, ast.Constant) and node.value in SPARK_KEYS
    ]


def spark_keys_in_script(name: str, text: str) -> list[str]:
    """The same in JavaScript, where a key is also written without quotes."""
    return [
        f"{name}:{number}: {word!r}: only in model/progress.py"
        for number, line in enumerate(text.splitlines(), 1)
        for word in re.findall(r"\w+", line)
        if word in SPARK_KEYS
    ]


def process_calls(source: Source) -> list[str]:
    """Starting and killing processes: os.kill and its kin, and `.kill()` on any object."""
    found = []
    for node in source.nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        name = node.func.attr
        of_os = owner == "os" and (name in PROCESS_CALLS or name.startswith(("exec", "spawn")))
        of_process = name in ("send_signal", "terminate", "kill", "Popen") and owner != "os"
        if of_os or of_process:
            place = f"{source.module}:{node.lineno}"
            found.append(f"{place}: {owner}.{name}: only in supervisor/process.py")
    return found


def dangerous_calls(source: Source) -> list[str]:
    """eval, exec, shell=True, yaml.load; printing where there is no terminal."""
    found = []
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        place, name = f"{source.module}:{node.lineno}", ast.unparse(node.func)
        if name in ("eval", "exec", "yaml.load"):
            found.append(f"{place}: {name}()")
        if name == "print" and source.room not in PRINTING_ROOMS:
            found.append(f"{place}: print(): log it, or return it to the command")
        for keyword in node.keywords:
            if keyword.arg == "shell" and getattr(keyword.value, "value", True):
                found.append(f"{place}: shell=True")
    return found


def sizes(source: Source) -> list[str]:
    lines = source.text.count("\n")
    found = []
    if lines > LINES["module"]:
        found.append(f"{source.module}: {lines} lines, the wall is {LINES['module']}")
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LINES[kind]:
                wall = f"{length} lines, the wall is {LINES[kind]}"
                found.append(f"{source.module}.{node.name}: {wall}")
    return found


def names(source: Source) -> list[str]:
    """A name says what a thing is, not that somebody needed a place for it."""
    last = source.module.split(".")[-1]
    found = []
    if last in BANNED_FILES:
        found.append(f"{source.module}: a file named {last!r}")
    if last.endswith("ing") and last not in NOUNS_IN_ING:
        found.append(f"{source.module}: {last!r} is not a noun")
    if last.startswith("_") and last != "__main__":
        found.append(f"{source.module}: rooms are internal already, no private module names")
    found += [
        f"{source.module}:{node.lineno}: class {node.name}"
        for node in source.nodes
        if isinstance(node, ast.ClassDef) and node.name.endswith(BANNED_ENDINGS)
    ]
    return found


def shape(source: Source) -> list[str]:
    """A docstring; absolute imports; a room's __init__ holds nothing else."""
    found = [] if ast.get_docstring(source.tree) else [f"{source.module}: no docstring"]
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            found.append(f"{source.module}:{node.lineno}: relative import")
    if source.is_package and source.module != ROOT and len(source.tree.body) > 1:
        found.append(f"{source.module}: no re-exports, import the module itself")
    return found


def unnumbered_todos(source: Source) -> list[str]:
    pattern = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b(?!\s*\(?#\d+)")
    return [
        f"{source.module}:{number}: TODO without an issue number"
        for number, line in enumerate(source.text.splitlines(), 1)
        if pattern.search(line)
    ]


def broad_excepts(source: Source) -> list[str]:
    """`except Exception`, `except BaseException`, `except:` as module.function.

    One that ends by raising again (to clean up first) swallows nothing and is fine.
    """
    return [f"{source.module}.{name}" for name in _broad(source.tree, "")]


def _broad(node: ast.AST, inside: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        name = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside}.{child.name}".lstrip(".")
        if isinstance(child, ast.ExceptHandler):
            caught = {"BaseException"} if child.type is None else _names_in(child.type)
            raises = isinstance(child.body[-1], ast.Raise) and child.body[-1].exc is None
            if caught & {"Exception", "BaseException"} and not raises:
                yield name
        yield from _broad(child, name)


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def same_test_names(files: list[Path]) -> list[str]:
    """pytest imports test files by their bare name: two of one name hide each other."""
    seen: dict[str, Path] = {}
    found = []
    for file in files:
        if file.name in seen and file.name not in ("conftest.py", "__init__.py"):
            found.append(f"{file} and {seen[file.name]} have the same name")
        seen[file.name] = file
    return found
