"""The demo: a metric-processing application, its log generator, terminal view and count."""
