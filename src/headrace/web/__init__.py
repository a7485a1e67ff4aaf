"""The web process: the page and its API. It reads, and leaves requests. Start at `app.py`."""
