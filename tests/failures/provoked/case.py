"""A case: what is done to a pipeline, and which entry of the catalogue its failure has to get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.runs import Exit
from provoked.pipeline_stage import Stage

Steps = Callable[[Stage], Exit]


@dataclass(frozen=True)
class Case:
    """`said` are parts of what `headrace why` must print, in addition to the catalogue's words."""

    name: str
    slug: str
    kind: str | None
    steps: Steps
    said: tuple[str, ...] = ()
    is_quick: bool = False
    needs: tuple[str, ...] = ()  # fixtures, which become attributes of the stage

    @property
    def how(self) -> str:
        return str(self.steps.__doc__).splitlines()[0]


CASES: list[Case] = []


def provoked(
    slug: str,
    kind: str | None,
    *said: str,
    quick: bool = False,
    needs: tuple[str, ...] = ("spark",),
) -> Callable[[Steps], Steps]:
    """Puts a case into the list; the first line of its docstring says what is done."""

    def add(steps: Steps) -> Steps:
        CASES.append(Case(steps.__name__, slug, kind, steps, said, quick, needs))
        return steps

    return add
