"""One module per service. `alerts/channels.py` has the table."""
