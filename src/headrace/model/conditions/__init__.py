"""Conditions in which nothing fails and yet the answer is wrong, missing or late.

One file a condition, one line in `table`. Each is a pure function from what is known of a run
(`runview`) to findings. Invariant: no clock; "now" is the time of the run's newest event.
"""
