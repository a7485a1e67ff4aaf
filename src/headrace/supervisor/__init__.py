"""The parent process: it keeps pipelines running. Begin with loop.py, then decision_rules.py."""
