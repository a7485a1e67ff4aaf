"""Decorators and triggers of a pipeline's file; loading, checking and versioning it."""
