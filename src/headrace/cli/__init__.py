"""The command line: parse, call one function, print. `main` has the table of commands."""
