"""The page and its API: a process of its own that reads, and leaves requests. Start at `app.py`."""
