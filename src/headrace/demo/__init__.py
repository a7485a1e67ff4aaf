"""The metric-processing application as a user would write it; its generator, view and count."""
