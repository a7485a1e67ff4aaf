"""The catalogue entries, one module per subject; `search_order` combines them."""
