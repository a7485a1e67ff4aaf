"""Heartbeats from topic to topic, in real time."""

import shape

import headrace as hr


@hr.stream(to="heartbeats", trigger=hr.real_time("2 minutes"))
def heartbeats(raw_logs, customers):
    return shape.beats(raw_logs, customers)
