"""Models of time."""
