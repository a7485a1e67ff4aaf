"""Names and what each of them takes: circles, and an order in which they can be built. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def find_cycles(inputs: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Each as its path, the first name again at the end; a cycle is told once."""
    found: list[tuple[str, ...]] = []
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            found.append((*path[path.index(name) :], name))
        elif name in inputs and name not in done:
            for other in inputs[name]:
                visit(other, (*path, name))
            done.add(name)

    for name in inputs:
        visit(name, ())
    return found


def in_order(inputs: Mapping[str, Sequence[str]]) -> list[str]:
    """Names so that each comes after its inputs, otherwise as declared."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in inputs and name not in order:
            for other in inputs[name]:
                visit(other)
            order.append(name)

    for name in inputs:
        visit(name)
    return order
