"""Metrics for other systems: the table of metrics, and their formats."""
