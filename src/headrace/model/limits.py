"""Limits and choices of the user, with their defaults. Seconds unless the name says otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartLimits:
    retries: int | None = None  # None: no limit
    delay_s_min: float = 1.0
    delay_s_max: float = 60.0
    jitter: float = 0.1  # share of the delay, either way
    healthy_after_s: float = 60.0  # a run that lives this long and has worked resets the delay
    same_failure_max: int = 3  # same batch, same fingerprint, no new commit: a person is needed


@dataclass(frozen=True, slots=True)
class WatchdogLimits:
    start_s: float = 180.0  # to the first heartbeat
    alive_s: float = 50.0  # without any line in the events file
    stall_s: float = 300.0  # alive, data to read, no progress: alert and thread dump
    stall_batches: float = 5.0  # or this many times the query's usual batch, if that is longer
    kill_after: float = 2.0  # times the stall limit: killed and restarted


@dataclass(frozen=True, slots=True)
class DrainLimits:
    timeout_s: float = 30.0  # for every query to reach a batch boundary, then it is cut
    kill_s: float = 15.0  # on top, for the process to end, then it is killed


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """When silent trouble is reported: `window_s` is what counts as now, the rest as too long."""

    window_s: float = 60.0
    rows_min: int = 50  # fewer rows prove nothing
    future_s: float = 600.0  # event times this far ahead of the clock
    held_s: float = 300.0  # a watermark that waits this long for one idle input
    behind_s: float = 120.0  # more arrives than is processed
    state_s: float = 3600.0  # state that only grows


@dataclass(frozen=True, slots=True)
class QuerySettings:
    every: float | None = None  # seconds; wins over the definition's trigger
    checkpoint: str | None = None
    fresh_within: float | None = None  # seconds
