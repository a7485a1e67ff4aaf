"""Conditions in which nothing fails and yet results are wrong, missing or late.

One file per condition, one line in `table`. Each is a pure function from a run's view (`run_view`)
to findings. Invariant: no clock; "now" is the time of the run's newest event.
"""
