"""Conditions that open, update and resolve alerts; delivery comes with its own issue."""
