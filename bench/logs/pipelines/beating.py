"""Heartbeats from topic to topic, in real time."""

import shape

import headrace as hr


@hr.stream(to="heartbeats", trigger=hr.real_time("1 minute"))
def heartbeats(raw_logs, customers):
    return shape.beats(raw_logs, customers)
