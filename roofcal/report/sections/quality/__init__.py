"""The section `quality`."""
