"""The decorators of a pipeline's file: `@hr.source`, `.table`, `.view`, `.udf`, `.stream`,
`.listener`.

Each records the declaration with its location and returns the function unchanged, so that it can
be called and tested. `graph` checks how the declarations fit together. Does not need Spark.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

from headrace.define import listeners, triggers
from headrace.define.declarations import Declaration, current
from headrace.durations import optional_duration
from headrace.errors import ConfigError, DefinitionError
from headrace.model.pipeline import Place
from headrace.spelling import closest
from headrace.transforms.udf import Udf

MODES = ("append", "update", "complete")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}")

F = TypeVar("F", bound=Callable[..., Any])
L = TypeVar("L")


@overload
def source(function: F) -> F: ...
@overload
def source(*, name: str | None = None) -> Callable[[F], F]: ...
def source(function: F | None = None, *, name: str | None = None) -> F | Callable[[F], F]:
    """A function that returns a connector or a streaming DataFrame."""
    return _declare("source", function, name)


@overload
def table(function: F) -> F: ...
@overload
def table(*, name: str | None = None) -> Callable[[F], F]: ...
def table(function: F | None = None, *, name: str | None = None) -> F | Callable[[F], F]:
    """A function that returns a connector or DataFrame that is read as a batch."""
    return _declare("table", function, name)


@overload
def view(function: F) -> F: ...
@overload
def view(*, name: str | None = None) -> Callable[[F], F]: ...
def view(function: F | None = None, *, name: str | None = None) -> F | Callable[[F], F]:
    """A named DataFrame, which queries and other views use as a parameter."""
    return _declare("view", function, name)


def stream(
    function: object = None,
    *,
    to: object = None,
    mode: str = "append",
    every: str | float | None = None,
    trigger: triggers.Trigger | None = None,
    fresh_within: str | float | None = None,
    name: str | None = None,
) -> Callable[[F], F]:
    """A query that Headrace keeps running; its result goes to the sink `to`, a name in
    headrace.toml or a connector."""
    found = [p for p in (_sink_problem(to), _mode_problem(mode)) if p is not None]
    if every is not None and trigger is not None:
        what = "@hr.stream accepts either every= or trigger=, not both."
        found.append(DefinitionError(what, fix="Remove one of them.", slug="two-triggers"))
    chosen = _trigger(every, trigger, found)
    fresh = _seconds("fresh_within", fresh_within, found)
    for problem in found:
        problem.where = str(_caller())
        current().refuse(problem)
    options = {"to": to, "mode": mode, "trigger": chosen, "fresh_within": fresh}

    def record(inner: F) -> F:
        # Record it despite mistakes, so that its name is known.
        return _record("query", inner, name, {**options, "is_refused": bool(found)})

    return record(function) if callable(function) else record


def udf(
    function: Callable[..., Any] | str | None = None,
    *,
    returns: str | None = None,
    name: str | None = None,
) -> Any:
    """A Python function for SQL and DataFrame code. The return type is a DDL type
    (`@hr.udf("double")`) or comes from the annotation."""
    if isinstance(function, str):
        function, returns = None, function

    def record(inner: Callable[..., Any]) -> Udf:
        made = Udf(inner, name or inner.__name__, returns or _return_type(inner))
        _record("udf", inner, name, {"udf": made})
        return made

    return record(function) if function is not None else record


def listener(listener: L) -> L:
    """A StreamingQueryListener class of PySpark, or a function that returns such a listener.
    Headrace registers it before the queries start."""
    if inspect.isfunction(listener):
        return _record("listener", listener, None, {})
    place = _caller()
    if isinstance(listener, type) and listeners.is_listener_class(listener):
        place = _class_place(listener.__name__, place)
        current().add(Declaration(listener.__name__, "listener", listener, place))
    else:
        name = listener.__name__ if isinstance(listener, type) else repr(listener)
        what = f"@hr.listener is applied to {name}, which is not a {listeners.BASE} class."
        current().refuse(listeners.not_a_listener(what, str(place), listener))
    return listener


def _declare(kind: str, function: F | None, name: str | None) -> F | Callable[[F], F]:
    if function is None:
        return lambda inner: _record(kind, inner, name, {})
    return _record(kind, function, name, {})


def _record(kind: str, function: F, name: str | None, options: dict[str, Any]) -> F:
    if not inspect.isfunction(function):
        current().refuse(
            DefinitionError(
                f"@hr.{'stream' if kind == 'query' else kind} is applied to {function!r}.",
                why="It can only decorate a function.",
                fix="Put the decorator directly above a function's def.",
                where=str(_caller()),
                slug="not-a-function",
            )
        )
        return function
    chosen = name or function.__name__
    place = _place(function)
    if not NAME.fullmatch(chosen) or chosen == "spark":
        current().refuse(
            DefinitionError(
                f"{chosen!r} is not a valid {kind} name.",
                why="Names can be up to 63 characters long, can contain letters, digits, _ and -, "
                "and must not start with -. The name `spark` is reserved for the Spark session.",
                where=str(place),
                fix='Rename the function, or set name="…".',
                slug="bad-name",
            )
        )
    current().add(Declaration(chosen, kind, function, place, options))
    return function


def _place(function: Callable[..., Any]) -> Place:
    """The line of `def`; a function's code starts at its first decorator."""
    code = function.__code__
    line = code.co_firstlineno
    for number in range(line, line + 60):
        if re.match(r"\s*(async\s+)?def\s", linecache.getline(code.co_filename, number)):
            line = number
            break
    return current().place(code.co_filename, line)


def _class_place(name: str, decorator: Place) -> Place:
    """The line of `class`, below the decorators."""
    file = sys._getframe(2).f_code.co_filename
    for number in range(decorator.line, decorator.line + 60):
        if re.match(rf"\s*class\s+{name}\b", linecache.getline(file, number)):
            return Place(decorator.file, number)
    return decorator


def _caller() -> Place:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return current().place(frame.f_code.co_filename, frame.f_lineno)


def _trigger(
    every: str | float | None, trigger: object, found: list[DefinitionError]
) -> triggers.Trigger | None:
    if trigger is not None and not isinstance(trigger, triggers.Trigger):
        found.append(
            DefinitionError(
                f"Invalid trigger: {trigger!r}.",
                why="Allowed: hr.available_now(), hr.real_time(…), hr.continuous(…).",
                fix=_trigger_fix(trigger),
                slug="bad-trigger",
            )
        )
        return None
    seconds = _seconds("every", every, found)
    return trigger if seconds is None else triggers.every(seconds)


def _trigger_fix(trigger: object) -> str:
    try:
        every = trigger if isinstance(trigger, str) and optional_duration(trigger) else None
    except ConfigError:
        every = None
    return f'To set an interval, write every="{every or "10 seconds"}" instead of trigger=….'


def _seconds(option: str, value: str | float | None, found: list[DefinitionError]) -> float | None:
    try:
        return optional_duration(value)
    except ConfigError as exc:
        what = f"Invalid duration for {option}: {value!r}."
        found.append(DefinitionError(what, why=exc.why, fix=exc.fix, slug="bad-duration"))
        return None


def _sink_problem(to: object) -> DefinitionError | None:
    if to is None:
        return DefinitionError(
            "@hr.stream needs a sink (to=…).",
            fix='Name a sink from headrace.toml (to="metrics"), or pass a connector '
            '(to=hr.parquet("data/out")).',
            slug="sink-missing",
        )
    if isinstance(to, str) or getattr(getattr(to, "capabilities", None), "is_sink", False):
        return None
    kind = getattr(to, "kind", None)
    return DefinitionError(
        f"to={kind or repr(to)} is not a sink.",
        why=f"{kind} can only be read from."
        if kind
        else "A sink must be a connector or the name of a sink in headrace.toml.",
        fix='Use to=hr.parquet("data/out"), to=hr.console() or to=hr.each_batch(function).',
        slug="not-a-sink",
    )


def _mode_problem(mode: object) -> DefinitionError | None:
    if mode in MODES:
        return None
    meant = closest(str(mode), MODES)
    return DefinitionError(
        f"Invalid mode: {mode!r}. Allowed: {', '.join(MODES)}.",
        fix=f'Write mode="{meant}".' if meant else 'Remove mode= to use the default, "append".',
        slug="bad-mode",
    )


_TYPES = {
    "str": "string", "int": "bigint", "float": "double", "bool": "boolean", "bytes": "binary",
    "date": "date", "datetime": "timestamp", "Decimal": "decimal(38,18)",
}  # fmt: skip


def _return_type(function: Callable[..., Any]) -> str:
    """The DDL type of a simple annotation; string without one, as in PySpark."""
    annotation = function.__annotations__.get("return", "str")
    written = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "str")
    written = written.removesuffix(" | None").rsplit(".", 1)[-1]
    return _TYPES.get(written, "string")
