"""The reference application, as a user would write it."""
