"""The tables that a Spark SQL text reads. Pure: the text is parsed, not run."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeVar

from headrace.errors import DefinitionError, Error

E = TypeVar("E", bound=Error)

DEPTH_MAX = 500  # about the limit of Spark's parser, which far beyond it runs out of memory
_TOKENS = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[()]", re.DOTALL
)


def is_too_deep(text: str) -> bool:
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth > DEPTH_MAX:
            return True
    return False


def too_deep(kind: type[E]) -> E:
    return kind(
        "The SQL is nested too deeply.",
        why="SQL parsers limit how deeply brackets and operators can be nested.",
        fix="Move inner parts to a WITH clause: WITH step AS (SELECT …) SELECT … FROM step",
        slug="sql-too-deep",
    )


def tables(text: str, known: Collection[str]) -> tuple[str, ...]:
    """The names in `known` that the query reads, in order. A common table expression hides names,
    as in Spark."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    if is_too_deep(text):
        raise too_deep(DefinitionError)
    try:
        statements = [s for s in sqlglot.parse(text, read="spark") if s is not None]
        if len(statements) == 1 and isinstance(statements[0], exp.Query):
            sources = [s for scope in traverse_scope(statements[0]) for s in scope.sources.values()]
            found = [s.name for s in sources if isinstance(s, exp.Table) and not s.db]
            by_lower = {name.lower(): name for name in known}  # Spark ignores case
            names = [by_lower[n.lower()] for n in found if n.lower() in by_lower]
            return tuple(dict.fromkeys(names))
    except (SqlglotError, RecursionError):
        # Spark may still parse it, so count every known name in the text.
        words = set(re.findall(r"\w+", text))
        return tuple(name for name in known if name in words)
    raise DefinitionError(
        f"The SQL is not a single query: {' '.join(text.split())[:80]!r}.",
        why=f"It contains {len(statements)} statements."
        if len(statements) != 1
        else "It must be a SELECT (or WITH … SELECT): a definition must not change data.",
        fix="Return a single SELECT statement.",
        slug="not-a-query",
    )
