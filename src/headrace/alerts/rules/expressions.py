"""The condition of a user's rule: `lag_seconds > 5 minutes and avg(input_rate, 10 minutes) > 100`.

    condition   = comparison {("and" | "or") comparison}, with parentheses; "and" binds first
    comparison  = value (">" | ">=" | "<" | "<=" | "=" | "!=") value
    value       = number [unit] | metric | (avg | min | max) "(" metric "," duration ")"

Pure. Invariant: evaluating it runs no code but this; a value that is unknown makes a comparison
unknown, and nothing fails.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from headrace.alerts.rules.metrics import METRICS, Metric, Unit
from headrace.durations import UNITS as SECONDS
from headrace.errors import ConfigError
from headrace.model.rules import About, Facts, QueryFacts
from headrace.spelling import suggest

FUNCTIONS = ("avg", "min", "max")
WINDOW_S_MIN, WINDOW_S_MAX = 10.0, 86_400.0
LENGTH_MAX = 1_000
DEPTH_MAX = 20
SIZES: Mapping[str, float] = {
    "bytes": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40,
}  # fmt: skip
_PLAIN = {"rows": Unit.ROWS, "files": Unit.FILES, "rows/s": Unit.RATE, "%": Unit.SHARE}
_UNITS = (*SECONDS, *SIZES, *_PLAIN)
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)"
    r"|(?P<name>[A-Za-z%][A-Za-z_0-9]*(?:/s\b)?)"
    r"|(?P<sign>>=|<=|==|!=|[><=(),]))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    unit: str = ""  # as written


@dataclass(frozen=True, slots=True)
class Value:
    """A metric, now or over a window."""

    metric: Metric
    function: str = ""
    window_s: float = 0.0

    def read(self, facts: Facts, query: QueryFacts | None) -> float | None:
        if not self.function:
            return self.metric.read(facts, query)
        if facts.windows is None:
            return None
        name = query.name if query is not None else None
        return facts.windows.read(self.metric.name, name, self.function, self.window_s)


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Value | Number
    sign: str
    right: Value | Number

    def holds(self, facts: Facts, query: QueryFacts | None) -> bool | None:
        pair = [
            side.value if isinstance(side, Number) else side.read(facts, query)
            for side in (self.left, self.right)
        ]
        if pair[0] is None or pair[1] is None:
            return None
        return _COMPARE[self.sign](pair[0], pair[1])


@dataclass(frozen=True, slots=True)
class Several:
    """All of them (and), or one of them (or). Unknown if the known ones do not decide."""

    parts: tuple[Condition, ...]
    is_all: bool

    def holds(self, facts: Facts, query: QueryFacts | None) -> bool | None:
        found = [part.holds(facts, query) for part in self.parts]
        if (not self.is_all) in found:
            return not self.is_all
        return None if None in found else self.is_all


Condition = Comparison | Several


def values(condition: Condition) -> Iterator[Value]:
    """The metrics that it names."""
    if isinstance(condition, Several):
        for part in condition.parts:
            yield from values(part)
    else:
        yield from (s for s in (condition.left, condition.right) if isinstance(s, Value))


def parse(text: str) -> Condition:
    """Raises ConfigError with what is wrong and the closest known name."""
    if len(text) > LENGTH_MAX:
        raise _bad(text[:80] + "…", f"It is longer than {LENGTH_MAX:,} characters.")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._depth = 0

    def parse(self) -> Condition:
        found = self._or()
        if self._tokens:
            raise _bad(self._text, f"{self._tokens[0][1]!r} is not expected there.")
        return found

    def _or(self) -> Condition:
        parts = [self._and()]
        while self._take_word("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Several(tuple(parts), is_all=False)

    def _and(self) -> Condition:
        parts = [self._term()]
        while self._take_word("and"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else Several(tuple(parts), is_all=True)

    def _term(self) -> Condition:
        if self._peek() == ("sign", "("):
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise _bad(self._text, f"It nests more than {DEPTH_MAX} levels deep.")
            self._next()
            found = self._or()
            self._expect(")")
            self._depth -= 1
            return found
        left = self._value()
        kind, sign = self._next()
        if kind != "sign" or sign not in _COMPARE:
            raise _bad(self._text, f"A comparison is expected in place of {sign!r}.")
        return self._in_one_unit(left, sign, self._value())

    def _value(self) -> Value | Number:
        kind, text = self._next()
        if kind == "number":
            unit = self._next()[1] if self._is_unit() else ""
            return Number(float(text.replace("_", "")), unit)
        if kind != "name":
            raise _bad(self._text, f"A metric or a number is expected in place of {text!r}.")
        if text.lower() in FUNCTIONS and self._peek() == ("sign", "("):
            return self._function(text.lower())
        return Value(_metric(text))

    def _function(self, function: str) -> Value:
        self._expect("(")
        metric = _metric(self._next()[1])
        self._expect(",")
        length = self._value()
        self._expect(")")
        window_s = length.value if isinstance(length, Number) else 0.0
        if isinstance(length, Number) and length.unit:
            window_s *= _factor(length.unit, Unit.SECONDS, self._text)
        if not WINDOW_S_MIN <= window_s <= WINDOW_S_MAX:
            why = "The window of an average is a duration from 10 seconds to 1 day."
            raise _bad(self._text, why)
        return Value(metric, function, window_s)

    def _in_one_unit(self, left: Value | Number, sign: str, right: Value | Number) -> Comparison:
        """Numbers are converted to the unit of the metric that they are compared with."""
        sides = [left, right]
        metrics = [side.metric for side in sides if isinstance(side, Value)]
        if not metrics:
            raise _bad(self._text, "A comparison needs a metric on one side.")
        if len({metric.unit for metric in metrics}) > 1:
            why = f"{metrics[0].name} is in {metrics[0].unit}, {metrics[1].name} in "
            raise _bad(self._text, f"{why}{metrics[1].unit}.")
        for place, side in enumerate(sides):
            if isinstance(side, Number) and side.unit:
                factor = _factor(side.unit, metrics[0].unit, self._text, metrics[0].name)
                sides[place] = Number(side.value * factor, side.unit)
        return Comparison(sides[0], sign, sides[1])

    def _is_unit(self) -> bool:
        kind, text = self._peek()
        return kind == "name" and text.lower() not in ("and", "or")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[0] if self._tokens else ("end", "the end")

    def _next(self) -> tuple[str, str]:
        return self._tokens.pop(0) if self._tokens else ("end", "the end")

    def _take_word(self, word: str) -> bool:
        kind, text = self._peek()
        is_it = kind == "name" and text.lower() == word
        if is_it:
            self._next()
        return is_it

    def _expect(self, sign: str) -> None:
        found = self._next()
        if found != ("sign", sign):
            raise _bad(self._text, f"{sign!r} is expected in place of {found[1]!r}.")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    end = len(text.rstrip())
    place = 0
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            raise _bad(text, f"{text[place:].strip()[:20]!r} cannot be read.")
        yield str(found.lastgroup), found[0].strip()
        place = found.end()


def _metric(name: str) -> Metric:
    if name not in METRICS:
        raise ConfigError(
            f"Unknown metric {name!r}.",
            why=f"Known: {', '.join(METRICS)}.",
            fix=suggest(name, METRICS, "docs/reference/rules.md describes each metric."),
            slug="unknown-metric",
        )
    return METRICS[name]


def _factor(unit: str, wanted: Unit, text: str, metric: str = "the window") -> float:
    """From the unit that was written to that of the metric."""
    word = unit.lower()
    if word not in _UNITS:
        raise ConfigError(
            f"Unknown unit {unit!r} in {text!r}.",
            why="Units: ms, seconds, minutes, hours, days; kB, MB, GB, TB; rows, files, %.",
            fix=suggest(unit, _UNITS, "Write a number without a unit."),
            slug="unknown-unit",
        )
    if wanted in (Unit.SECONDS, Unit.MILLISECONDS) and word in SECONDS:
        return SECONDS[word] * (1000.0 if wanted is Unit.MILLISECONDS else 1.0)
    if wanted is Unit.BYTES and word in SIZES:
        return SIZES[word]
    if _PLAIN.get(word) is wanted:
        return 0.01 if word == "%" else 1.0
    raise ConfigError(
        f"{metric} is in {wanted}, not in {unit}.",
        why=f"The condition is {text!r}.",
        fix="Compare it with a number in its own unit.",
        slug="unknown-unit",
    )


def about(condition: Condition) -> About:
    """What the rule is about: the smallest of what its metrics are about."""
    kinds = {value.metric.about for value in values(condition)}
    return next(a for a in (About.QUERY, About.PIPELINE, About.PROJECT) if a in kinds)


def _bad(text: str, why: str) -> ConfigError:
    return ConfigError(
        f"Invalid condition: {text!r}.",
        why=why,
        fix='Write, for example, when = "lag_seconds > 5 minutes and input_rate > 100".',
        slug="bad-condition",
    )
