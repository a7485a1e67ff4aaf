"""Rows dropped as late jump: they arrive after the watermark has passed their time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.health.conditions import future_times, shares
from headrace.health.run_view import QueryView, RunView
from headrace.model.findings import Finding
from headrace.model.limits import HealthLimits

JUMP = 0.05
GROUPS_MIN = 10  # Spark counts after partial aggregation: many rows become few
LATE_MIN = 5  # fewer are not a jump
MOST = 0.5  # a problem, whatever the past


def find(view: RunView, query: QueryView, limits: HealthLimits) -> Iterator[Finding]:
    if future_times.is_watermark_ahead(query, limits):
        return  # that is why they are late
    if not shares.is_ever(query.series, "late", "late.of", JUMP):
        return
    few = replace(limits, rows_min=max(GROUPS_MIN, limits.rows_min // 5))
    shift = shares.shift(query.series, "late", "late.of", few)
    if shift is None or shift.part < LATE_MIN:
        return
    if not (shift.share >= MOST or shift.is_jump(JUMP, times=3.0)):
        return
    yield Finding(
        slug="late-rows",
        what=f"Rows are being dropped because they are late: {shares.percent(shift.share)} of the "
        f"rows that reached the stateful operators {shift.in_words}.",
        cause="Events arrive later than withWatermark allows: their producer or an upstream queue "
        "delays them, or old data is sent again. (Spark counts rows after partial aggregation, so "
        "the actual number is higher.)",
        fix="Find out how late the rows are (compare event time with arrival time). To keep such "
        f"rows from now on, use a longer delay in withWatermark. {shares.REPROCESS}",
        since=shift.since,
        where=query.place,
    )
