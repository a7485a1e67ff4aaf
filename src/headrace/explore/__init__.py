"""Queries over the committed data of sinks, without a JVM."""
