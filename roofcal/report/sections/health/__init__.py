"""The section `health`."""
