"""A project as people meet it: what is known of it, and how to ask for a change of it."""
