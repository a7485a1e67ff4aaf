"""Cycles in a graph of names, and an order in which they can be built. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def find_cycles(inputs: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Each cycle once, as a path that ends with its first name."""
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
    """Each name after its inputs, otherwise in the given order."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in inputs and name not in order:
            for other in inputs[name]:
                visit(other)
            order.append(name)

    for name in inputs:
        visit(name)
    return order
