"""Helpers for tests of streaming pipelines. `oracle` compares expected and actual rows."""
