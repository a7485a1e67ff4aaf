"""The texts of an alert by heading, and amounts as text. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.rules import PipelineFacts

OUTPUTS_NAMED = 10
KEEPS_RUNNING = "Keeps the pipeline running; it does not restart it for this."


def words(
    facts: PipelineFacts,
    doing: str,
    fix: str,
    *,
    cause: str | None = None,
    query: str | None = None,
    **more: str,
) -> dict[str, str]:
    """What the person who gets the alert has to know. Without a query, all outputs of the pipeline
    are affected."""
    if query is None:
        outputs = tuple(dict.fromkeys(one for named in facts.outputs.values() for one in named))
    else:
        outputs = facts.outputs.get(query, ())
    found = {
        "Headrace": doing,
        "Cause": cause or "",
        "What to do": fix or f"Run `headrace why {facts.name}`.",
        **{heading.replace("_", " "): text for heading, text in more.items()},
        "Affected outputs": name_outputs(outputs),
        "More": f"headrace why {facts.name}",
    }
    return {heading: text for heading, text in found.items() if text}


def name_outputs(outputs: Sequence[str]) -> str:
    rest = len(outputs) - OUTPUTS_NAMED
    return ", ".join(outputs[:OUTPUTS_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def size(count: float) -> str:
    """Bytes in one unit: 1.5 GB."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} bytes"


def percent(share: float) -> str:
    return f"{share * 100:.3g} %"
