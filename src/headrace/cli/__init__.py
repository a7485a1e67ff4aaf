"""The command line: one file a command group. Thin: parse, call one function, print.

Invariant: modules with commands import nothing heavy at their top, so `headrace --help` is quick.
"""
