"""For users' own tests."""
