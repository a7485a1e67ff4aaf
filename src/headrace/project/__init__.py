"""Reads the state of a project, and sends requests to its supervisor."""
