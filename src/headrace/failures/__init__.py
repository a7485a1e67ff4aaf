"""The failure catalogue: maps the text of an error to its kind, an explanation and a fix."""
