"""The web process: the page and its API. It only reads, and leaves requests for the supervisor.

Start at `app.py`.
"""
