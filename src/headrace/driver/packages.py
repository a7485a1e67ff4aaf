"""What a script asks Spark to load for itself, held against the Spark that is here.

A connector of another Spark or Scala fails late, in words of the JVM. So it is looked at before the
JVM starts: where the right jars were fetched they are used instead, and that is said; else the run
is refused. Called by `script`.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping

from headrace.connectors import jars
from headrace.connectors.jars import Misfit
from headrace.errors import ConfigError

SUBMIT = "PYSPARK_SUBMIT_ARGS"
_ARGUMENT = re.compile(
    r"""(?P<option>--packages|--jars|--conf[ =]+["']?spark\.jars(?:\.packages)?)[ =]+"""
    r"""["']?(?P<value>[^\s"']+)["']?\s*"""
)


def correct(
    options: MutableMapping[str, str], environment: MutableMapping[str, str], where: str
) -> list[str]:
    """Take out what does not fit, from a builder's options and from PYSPARK_SUBMIT_ARGS.

    Returns a sentence for each thing replaced. Raises ConfigError where nothing can replace it.
    """
    said: list[str] = []
    for key in (one for one in (jars.PACKAGES, jars.JARS) if one in options):
        kept, words = _kept(str(options.pop(key)), key, key == jars.JARS, where)
        said += words
        if kept:
            options[key] = kept

    def corrected(argument: re.Match[str]) -> str:
        label = f"{argument['option']} of {SUBMIT}"
        kept, words = _kept(argument["value"], label, argument["option"].endswith("jars"), where)
        said.extend(words)
        return argument[0].replace(argument["value"], kept) if kept else ""

    if given := environment.get(SUBMIT):
        environment[SUBMIT] = _ARGUMENT.sub(corrected, given)
    return said


def _kept(text: str, label: str, is_jars: bool, where: str) -> tuple[str, list[str]]:
    """The list without what does not fit. A list of jars hides ours, so they are added to it."""
    misfits = [bad for one in jars.listed(text) if (bad := jars.misfit(one))]
    said = [_replaced(label, bad, where) for bad in misfits]
    if not misfits:
        return text, []
    kept = [one for one in jars.listed(text) if not jars.misfit(one)]
    if kept and is_jars:
        kept += [str(jar) for bad in misfits if bad.bundle for jar in jars.fetched(bad.bundle)]
    return ",".join(kept), said


def _replaced(label: str, bad: Misfit, where: str) -> str:
    change = f"Change {SUBMIT if SUBMIT in label else 'the script'}: take {bad.fits}"
    if bad.bundle and jars.fetched(bad.bundle):
        return (
            f"{label} has {bad.words} Headrace uses the jars that `headrace jars fetch "
            f"{bad.bundle.name}` has fetched instead. {change}, or remove it."
        )
    fetch = (
        f", or run: headrace jars fetch {bad.bundle.name}. Its jars then override the script's."
        if bad.bundle
        else "."
    )
    raise ConfigError(
        f"{label} has {bad.words}",
        why=jars.MISFIT_WHY,
        where=where,
        fix=change + fetch,
        slug="jars-mismatch",
    )
