"""State in SQLite: history.db (disposable) and alerts.db (not). All SQL on it is here.

Begin with db (opening, transactions), then migrations (the tables). Times: seconds since the epoch.
"""
