"""The section `bandwidth`."""
