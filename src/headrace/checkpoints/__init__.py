"""Reads and checks Spark's checkpoints and sink logs as plain files, without Spark."""
