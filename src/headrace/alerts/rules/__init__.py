"""The conditions under which Headrace opens an alert by itself: pure functions of facts."""
