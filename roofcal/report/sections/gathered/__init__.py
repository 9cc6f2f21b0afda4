"""The section `gathered`."""
