"""Benchmarks: `python -m bench` from the repository's root. See docs/benchmarks.md."""
