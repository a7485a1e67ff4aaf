"""Judging: whether runs and queries are healthy, why not, and whether a restart makes sense."""
