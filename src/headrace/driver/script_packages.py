"""Checks that the packages and jars of a script fit the installed Spark, before the JVM starts.

A connector for a different Spark or Scala version fails late, with a JVM error. If matching jars
have been fetched, they are used instead, with a warning; else the run is refused.
Called by `script`.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping

from headrace.connectors import jars
from headrace.connectors.jars import JarMismatch
from headrace.errors import ConfigError

SUBMIT = "PYSPARK_SUBMIT_ARGS"
_ARGUMENT = re.compile(
    r"""(?P<option>--packages|--jars|--conf[ =]+["']?spark\.jars(?:\.packages)?)[ =]+"""
    r"""["']?(?P<value>[^\s"']+)["']?\s*"""
)


def correct(
    options: MutableMapping[str, str], environment: MutableMapping[str, str], where: str
) -> list[str]:
    """Remove mismatches from a builder's options and from PYSPARK_SUBMIT_ARGS.

    Returns a warning for each replacement. Raises ConfigError if there is no replacement.
    """
    warnings: list[str] = []
    for key in (key for key in (jars.PACKAGES, jars.JARS) if key in options):
        kept = _drop_misfits(str(options.pop(key)), key, key == jars.JARS, where, warnings)
        if kept:
            options[key] = kept

    def correct_argument(argument: re.Match[str]) -> str:
        option, value = argument["option"], argument["value"]
        label = f"{option} in {SUBMIT}"
        kept = _drop_misfits(value, label, option.endswith("jars"), where, warnings)
        return argument[0].replace(value, kept) if kept else ""

    if arguments := environment.get(SUBMIT):
        environment[SUBMIT] = _ARGUMENT.sub(correct_argument, arguments)
    return warnings


def _drop_misfits(text: str, label: str, is_jars: bool, where: str, warnings: list[str]) -> str:
    """The list without mismatches. A list of jars replaces ours, so ours are added to it."""
    items = jars.split_list(text)
    misfits = [misfit for item in items if (misfit := jars.find_mismatch(item))]
    if not misfits:
        return text
    warnings += [_describe_replacement(label, misfit, where) for misfit in misfits]
    kept = [item for item in items if not jars.find_mismatch(item)]
    if kept and is_jars:
        bundles = [misfit.bundle for misfit in misfits if misfit.bundle]
        kept += [str(jar) for bundle in bundles for jar in jars.fetched_files(bundle)]
    return ",".join(kept)


def _describe_replacement(label: str, bad: JarMismatch, where: str) -> str:
    change = f"In {SUBMIT if SUBMIT in label else 'the script'}, use {bad.fits}"
    if bad.bundle and jars.fetched_files(bad.bundle):
        return (
            f"{label} contains {bad.words} Headrace uses the jars from `headrace jars fetch "
            f"{bad.bundle.name}` instead. {change}, or remove the entry."
        )
    fetch = "."
    if bad.bundle:
        fetch = f", or run `headrace jars fetch {bad.bundle.name}` to replace the script's jars."
    raise ConfigError(
        f"{label} contains {bad.words}",
        why=jars.MISFIT_WHY,
        where=where,
        fix=change + fetch,
        slug="jars-mismatch",
    )
