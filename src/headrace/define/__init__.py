"""What a pipeline's file touches: decorators, triggers; and reading, checking and keeping it."""
