"""A column goes null: records no longer have the field, usually because it was renamed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.health.conditions import shares
from headrace.health.conditions.shares import NEARLY_ALL, Shift
from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding, Severity
from headrace.model.limits import HealthLimits
from headrace.model.series import Series, total
from headrace.model.times import clock

USUAL_MAX = 0.5  # a field that is null this often may be missing by chance
HIGHEST_MAX = 0.9  # it has been nearly all null before
PAST_WINDOWS = 5  # a shorter past may lack some kinds of records
JUMP, TIMES = 0.3, 3.0
SEEN = 0.5  # share of the null rows that have the unknown field
NEW = 0.1  # at most this part of that share before
LOOK = 0.2  # with fewer nulls the past is not read


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    for key, about in query.counted.items():
        kind, _, name = key.partition(".")
        if kind == "parsed":
            yield from _find_in_parse_point(query, name, about, limits)


def _find_in_parse_point(
    query: QueryView, name: str, about: Mapping[str, str], limits: HealthLimits
) -> Iterator[Finding]:
    whole, prefix = f"parsed.{name}", f"null.{name}."
    recent = shares.recent(query.series, whole, limits)
    # A bucket names only fields with nulls.
    nulls = {key for bucket in recent for key in bucket.sums if key.startswith(prefix)}
    new = {other for bucket in recent for key in bucket.sums
           if (other := key.removeprefix(f"unknown.{name}.")) != key}  # fmt: skip
    least = LOOK * total(recent, whole)
    for key in sorted(key for key in nulls if total(recent, key) >= max(1.0, least)):
        series = _since_known(query.series, key)
        shift = shares.full_or_shift(series, key, whole, limits)
        if shift is None:
            continue
        field = key.removeprefix(prefix)
        named = [other for other in new if shift.before is not None or _is_same(other, field)]
        unknown = _unknown(query.series, name, named, shift)
        severity = _severity(shift, unknown, limits)
        is_of_other_records = about.get("sample") == "before a filter"  # their mix may change
        if severity is not None and (unknown or not is_of_other_records):
            yield _finding(field, about, shift, unknown, severity)


def _since_known(series: Series, key: str) -> Series:
    """When counting of the field began. Before that it was not in the schema: the driver names all
    fields when it starts, and then once an hour."""
    first = next((n for n, bucket in enumerate(series.buckets) if key in bucket.sums), 0)
    return Series(series.buckets[first:])


def _severity(shift: Shift, unknown: Mapping[str, float], limits: HealthLimits) -> Severity | None:
    is_all = shift.share >= NEARLY_ALL
    if shift.before is None or shift.before_max is None:
        return Severity.WARNING if is_all and unknown else None
    has_past = shift.before_s >= PAST_WINDOWS * limits.window_s
    is_unusual = shift.before == 0 or (has_past and shift.before <= USUAL_MAX)
    if is_all and shift.before_max <= HIGHEST_MAX and (is_unusual or unknown):
        return Severity.PROBLEM
    return Severity.WARNING if has_past and shift.is_jump(JUMP, TIMES) else None


def _unknown(series: Series, name: str, named: list[str], shift: Shift) -> dict[str, float]:
    """Which of these fields came with the nulls, the most frequent one first."""
    whole = f"parsed.{name}"
    now = [bucket for bucket in series.buckets if bucket.begin >= shift.since]
    past = [bucket for bucket in series.buckets if bucket.begin < shift.since][:-1]
    found = {}
    for field in named:
        key = f"unknown.{name}.{field}"
        share = min(1.0, total(now, key) / max(1.0, total(now, whole)))
        before = total(past, key) / max(1.0, total(past, whole))
        if share >= SEEN * (shift.share - (shift.before or 0.0)) and before <= NEW * share:
            found[field] = share
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _is_same(one: str, other: str) -> bool:
    """Apart from case and punctuation: userId and user_id."""
    return re.sub(r"\W|_", "", one).casefold() == re.sub(r"\W|_", "", other).casefold()


def _finding(
    field: str,
    about: Mapping[str, str],
    shift: Shift,
    unknown: Mapping[str, float],
    severity: Severity,
) -> Finding:
    place, source = about.get("place"), about.get("source", "the source")
    where = about.get("call", "the source") + (f" ({place})" if place else "")
    since = f" since {clock(shift.since)}" if shift.before is not None else ""
    before = f" ({shares.percent(shift.before)} before)" if shift.before else ""
    what = f"`{field}` is null in {shift.rows_in_words}{since}{before}"
    cause = (
        f"The producer of {source} no longer sends `{field}`, or sends it with a type that does "
        "not match the schema."
    )
    fix = f"Ask the producer of {source} to send `{field}` again, or change the schema in {where}"
    if unknown:
        new, share = next(iter(unknown.items()))
        what += f"; {shares.percent(share)} of records have an unknown field `{new}`"
        cause = f"The producer of {source} probably renamed `{field}` to `{new}`."
        fix = f"Add `{new}` to the schema in {where}, or ask the producer of {source} to send "
        fix += f"`{field}` again"
        if shift.before is None:
            cause = f"The schema has `{field}`, but the records from {source} have `{new}`."
            fix = f"In {where}, rename `{field}` to `{new}` in the schema"
    fix += (
        ". Rows that were already written keep their nulls. To replace these rows, read the input "
    )
    fix += "again with a new checkpoint."
    return Finding(
        slug="field-null",
        what=f"{what}.",
        cause=cause,
        fix=fix,
        severity=severity.value,
        since=shift.since,
        where=place,
    )
