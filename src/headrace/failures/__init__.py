"""The catalogue of failures: from the text of an error to its kind, plain words and a fix."""
