"""The catalogue entries, one module per subject; `table` combines them."""
