"""Helpers for tests of streaming pipelines. `row_comparison` compares expected and actual rows."""
