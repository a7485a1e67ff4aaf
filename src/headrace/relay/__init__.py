"""The process that talks to brokers: lag, alert rows from topics, export of progress."""
