"""Alerts on their way to people: channels, routing, notifiers."""
