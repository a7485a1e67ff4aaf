"""What can go wrong, as data: one module a subject; `table` puts them together."""
