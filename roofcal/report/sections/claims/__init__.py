"""The section `claims`."""
